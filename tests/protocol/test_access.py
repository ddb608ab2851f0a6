"""Restricted calls, certificates, and what may be configured."""

import queue
import subprocess

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from raw_http import ask
from serving import FREE_PORTS, TUTTI, infer_affine, tensor
from tritonclient.utils import InferenceServerException

KEY = {"admin-key": "secret"}
GRPC_KEY = {"triton-grpc-protocol-admin-key": "secret"}
INFER = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [0, 0, 0, 0]}]}

# Group, and the calls of it on either front end.
HTTP_CALLS = {
    "health": [
        ("GET", "/v2/health/live"),
        ("GET", "/v2/health/ready"),
        ("GET", "/v2/models/affine/ready"),
    ],
    "metadata": [
        ("GET", "/v2"),
        ("GET", "/v2/models/affine"),
        ("GET", "/v2/models/affine/versions/1"),
    ],
    "inference": [("POST", "/v2/models/affine/infer"), ("POST", "/v2/models/affine/generate")],
    "shared-memory": [
        ("GET", "/v2/systemsharedmemory/status"),
        ("GET", "/v2/cudasharedmemory/status"),
    ],
    "model-config": [("GET", "/v2/models/affine/config")],
    "model-repository": [
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/affine/load"),
        ("POST", "/v2/repository/models/nope/unload"),
        ("POST", "/v2/repository/other/models/nope/unload"),
    ],
    "statistics": [("GET", "/v2/models/stats"), ("GET", "/v2/models/affine/stats")],
    "trace": [("GET", "/v2/trace/setting"), ("POST", "/v2/models/affine/trace/setting")],
    "logging": [("GET", "/v2/logging"), ("POST", "/v2/logging")],
}
GRPC_CALLS = {
    "health": [
        lambda c, h: c.is_server_live(headers=h),
        lambda c, h: c.is_server_ready(headers=h),
        lambda c, h: c.is_model_ready("affine", headers=h),
    ],
    "metadata": [
        lambda c, h: c.get_server_metadata(headers=h),
        lambda c, h: c.get_model_metadata("affine", headers=h),
    ],
    "inference": [
        lambda c, h: c.infer(
            "affine", [tensor("x", np.zeros((1, 4), np.float32), "FP32")], headers=h
        )
    ],
    "shared-memory": [lambda c, h: c.get_system_shared_memory_status(headers=h)],
    "model-config": [lambda c, h: c.get_model_config("affine", headers=h)],
    "model-repository": [
        lambda c, h: c.get_model_repository_index(headers=h),
        lambda c, h: c.load_model("affine", headers=h),
    ],
    "statistics": [lambda c, h: c.get_inference_statistics(headers=h)],
    "logging": [lambda c, h: c.get_log_settings(headers=h)],
}


@pytest.mark.parametrize("group", sorted(HTTP_CALLS))
def test_restricted_groups_need_their_key(repository, start, group):
    repository.add("affine")
    rule = f"{group}:admin-key=secret"
    options = ("--http-restricted-api", rule, "--grpc-restricted-protocol", rule)
    options += ("--model-control-mode", "explicit", "--load-model", "affine")
    server = start(repository.path, options=options)
    for name, calls in HTTP_CALLS.items():
        for method, path in calls:
            body = INFER if path.endswith("/infer") else b""
            for headers in ({}, {"admin-key": "wrong"}, {"admin-key": ""}):
                # Another spelling of the path is no way round.
                for spelled in (path, path.replace("affine", "%61ffine"), path + "?x"):
                    status = ask(server.http_url, method, spelled, body, headers).status
                    assert (status == 403) == (name == group), (method, spelled, status)
            if name == group:
                assert ask(server.http_url, method, path, body, KEY).status != 403
                refusal = ask(server.http_url, method, path, body).json()["error"]
                assert refusal == "This API is restricted, expecting header 'admin-key'"
    for name, calls in GRPC_CALLS.items():
        for call in calls:
            if name != group:
                call(server.client, None)
                continue
            for headers in (None, {"triton-grpc-protocol-admin-key": "wrong"}, KEY):
                with pytest.raises(InferenceServerException, match="This protocol is restricted"):
                    call(server.client, headers)
            call(server.client, GRPC_KEY)


def test_streams_and_the_health_service_are_restricted_too(repository, start):
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    repository.add("affine")
    server = start(
        repository.path, options=("--grpc-restricted-protocol", "inference,health:admin-key=secret")
    )
    errors = queue.Queue()
    server.client.start_stream(lambda result, error: errors.put(error))
    assert "restricted" in str(errors.get(timeout=60))
    server.client.stop_stream()
    server.client.start_stream(lambda result, error: errors.put(error), headers=GRPC_KEY)
    server.client.async_stream_infer("affine", [tensor("x", np.zeros((1, 4), np.float32), "FP32")])
    assert errors.get(timeout=60) is None
    server.client.stop_stream()
    with grpc.insecure_channel(server.url) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            stub.Check(health_pb2.HealthCheckRequest())
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        stub.Check(health_pb2.HealthCheckRequest(), metadata=GRPC_KEY.items())


@pytest.mark.parametrize(
    ("flag", "value", "part"),
    [
        ("--http-restricted-api", "nope:a=b", "'nope'"),
        ("--http-restricted-api", "health", "GROUP"),
        ("--http-restricted-api", "health:=b", "GROUP"),
        ("--grpc-restricted-protocol", "health:a=", "GROUP"),
        ("--grpc-restricted-protocol", "health,health:a=b", "twice"),
        ("--log-format", "xml", "xml"),
        ("--log-file", "/nowhere/log", "/nowhere/log"),
        ("--http-header-forward-pattern", "(", "header pattern"),
        ("--grpc-use-ssl", "true", "--grpc-server-key"),
        ("--http-address", "nowhere.invalid", "nowhere.invalid"),
    ],
)
def test_flags_that_are_wrong_say_so(repository, flag, value, part):
    repository.add("affine")
    command = [TUTTI, "serve", "--model-repository", repository.path, *FREE_PORTS]
    if flag in command:
        command = [*command[: command.index(flag)], *command[command.index(flag) + 2 :]]
    done = subprocess.run([*command, flag, value], capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2)
    assert part in done.stderr


def encrypted(server, certificates, client=None):
    return triton.InferenceServerClient(
        server.url,
        ssl=True,
        root_certificates=str(certificates / "ca.crt"),
        private_key=client and str(certificates / f"{client}.key"),
        certificate_chain=client and str(certificates / f"{client}.crt"),
    )


@pytest.mark.parametrize("mutual", [False, True])
def test_certificates(repository, start, certificates, mutual):
    repository.add("affine")
    options = ["--grpc-use-ssl-mutual" if mutual else "--grpc-use-ssl", "true"]
    options += ["--grpc-server-cert", certificates / "server.crt"]
    options += ["--grpc-server-key", certificates / "server.key"]
    options += ["--grpc-root-cert", certificates / "ca.crt"]
    server = start(repository.path, options=options)
    with encrypted(server, certificates, "client") as client:
        infer_affine(client)
    with pytest.raises(InferenceServerException):
        server.client.is_server_live(client_timeout=5)
    with encrypted(server, certificates) as client:
        if mutual:
            with pytest.raises(InferenceServerException):
                client.is_server_live(client_timeout=5)
        else:
            infer_affine(client)


def test_headers_become_parameters(repository, start):
    repository.add("affine")
    server = start(repository.path, options=("--http-header-forward-pattern", "^sequence_"))
    # A sequence is what this server refuses, so the header has arrived.
    response = ask(server.http_url, "POST", "/v2/models/affine/infer", INFER, {"sequence_id": "7"})
    assert response.status == 501
    assert (
        ask(server.http_url, "POST", "/v2/models/affine/infer", INFER, {"other": "7"}).status == 200
    )
