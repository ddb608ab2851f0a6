"""All that Triton's own clients can ask, client by client; docs/compatibility.* say what came of it."""

import asyncio
import base64
import inspect
import json
import threading
import uuid

import compatibility
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
import tritonclient.utils.shared_memory as shm
from serving import Server, assert_well
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

CLIENTS = {
    "tritonclient.grpc": tritonclient.grpc,
    "tritonclient.grpc.aio": tritonclient.grpc.aio,
    "tritonclient.http": tritonclient.http,
    "tritonclient.http.aio": tritonclient.http.aio,
}
X = np.arange(8, dtype=np.float32).reshape(2, 4)
Y = 2 * X + 1
WORKS = "works"
rows = {}


class Client:
    """One of the four, called alike: what is awaitable is awaited."""

    def __init__(self, name, server):
        self.module = CLIENTS[name]
        self.server = server
        self.is_http = ".http" in name
        self.is_async = name.endswith(".aio")
        self.loop = asyncio.new_event_loop()
        self.client = self.loop.run_until_complete(self.make())

    async def make(self):
        url = self.server.http_url if self.is_http else self.server.url
        return self.module.InferenceServerClient(url)

    def call(self, method, *args, **kwargs):
        result = getattr(self.client, method)(*args, **kwargs)
        if not inspect.isawaitable(result):
            return result

        async def wait():
            return await result

        return self.loop.run_until_complete(wait())

    def plain(self, method, *args, **kwargs):
        """The answer as a dictionary or list, whatever the front end."""
        if not self.is_http:
            kwargs["as_json"] = True
        return self.call(method, *args, **kwargs)

    def input(self):
        tensor = self.module.InferInput("x", [2, 4], "FP32")
        tensor.set_data_from_numpy(X)
        return tensor

    def close(self):
        self.call("close")
        self.loop.close()


def health(client):
    assert client.call("is_server_live") is True
    assert client.call("is_server_ready") is True
    assert client.call("is_model_ready", "affine") is True
    assert client.call("is_model_ready", "affine", "1") is True
    assert client.call("is_model_ready", "nope") is False


def metadata(client):
    server = client.plain("get_server_metadata")
    assert server["name"] == "tutti"
    assert {"classification", "statistics", "binary_tensor_data"} <= set(server["extensions"])
    model = client.plain("get_model_metadata", "affine", "1")
    assert model["versions"] == ["1"]
    assert model["inputs"][0]["datatype"] == "FP32"
    assert [int(size) for size in model["inputs"][0]["shape"]] == [-1, 4]
    config = client.plain("get_model_config", "affine")
    config = config.get("config", config)
    assert config["name"] == "affine"
    assert config["backend"] == "tutti"
    assert config["input"][0]["data_type"] == "TYPE_FP32"


def repository(client):
    index = client.plain("get_model_repository_index")
    models = index if client.is_http else index["models"]
    assert {"name": "affine", "version": "1", "state": "READY"} in models
    config = json.dumps({"name": "affine", "max_batch_size": 8})
    client.call("load_model", "affine", config=config)
    shape = client.plain("get_model_config", "affine")
    assert shape.get("config", shape)["max_batch_size"] == 8
    folder = client.server.folder / "affine" / "1"
    files = {f"file:5/{path.name}": path.read_bytes() for path in folder.iterdir()}
    client.call("load_model", "brought", config='{"backend": "tutti"}', files=files)
    assert client.plain("get_model_metadata", "brought")["versions"] == ["5"]
    client.call("unload_model", "brought", unload_dependents=True)
    assert client.call("is_model_ready", "brought") is False
    client.call("load_model", "affine")
    result = client.call("infer", "affine", [client.input()])
    np.testing.assert_array_equal(result.as_numpy("y"), Y)


def load_model_refuses(client):
    for config, files in (
        ("{", None),
        ('{"nope": 1}', None),
        ('{"name": "other"}', None),
        ('{"max_batch_size": -1}', None),
        (None, {"file:1/model.plan": b"x"}),
        ("{}", {"file:1/../../model.plan": b"x"}),
        ("{}", {"file:/etc/passwd": b"x"}),
        ("{}", {"file:1/model.plan": b"no plan"}),
        ("{}", {"other": b"x"}),
    ):
        with pytest.raises(InferenceServerException):
            client.call("load_model", "affine", config=config, files=files)
        result = client.call("infer", "affine", [client.input()])
        np.testing.assert_array_equal(result.as_numpy("y"), Y)
    with pytest.raises(InferenceServerException, match="nope"):
        client.call("load_model", "nope")


def statistics(client):
    before = client.plain("get_inference_statistics", "affine", "1")["model_stats"][0]
    client.call("infer", "affine", [client.input()])
    after = client.plain("get_inference_statistics", "affine", "1")["model_stats"][0]
    assert int(after["inference_count"]) == int(before.get("inference_count", 0)) + 1
    assert len(client.plain("get_inference_statistics")["model_stats"]) >= 2


def log_settings(client):
    def settings(answer):
        answer = answer.get("settings", answer)
        return {
            k: next(iter(v.values()), None) if isinstance(v, dict) else v for k, v in answer.items()
        }

    answer = settings(client.plain("update_log_settings", {"log_verbose_level": 1}))
    assert answer["log_verbose_level"] == 1
    assert settings(client.plain("get_log_settings"))["log_verbose_level"] == 1
    client.call("update_log_settings", {"log_verbose_level": 0})


def system_shared_memory(client):
    key = f"/tutti_{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region("region", key, 64)
    try:
        shm.set_shared_memory_region(handle, [X])
        client.call("register_system_shared_memory", "region", key, 64)
        status = client.plain("get_system_shared_memory_status", "region")
        assert "region" in (status[0].values() if client.is_http else status["regions"])
        tensor = client.module.InferInput("x", [2, 4], "FP32")
        tensor.set_shared_memory("region", 32)
        output = client.module.InferRequestedOutput("y")
        output.set_shared_memory("region", 32, 32)
        client.call("infer", "affine", [tensor], outputs=[output])
        np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [2, 4], 32), Y)
        client.call("unregister_system_shared_memory", "region")
        client.call("unregister_system_shared_memory")
    finally:
        shm.destroy_shared_memory_region(handle)


def infer(client):
    outputs = [client.module.InferRequestedOutput("y")]
    result = client.call(
        "infer", "affine", [client.input()], model_version="1", outputs=outputs, request_id="7",
        priority=1, timeout=60_000_000, parameters={"note": "n"}
    )  # fmt: skip
    np.testing.assert_array_equal(result.as_numpy("y"), Y)
    response = result.get_response(as_json=True) if not client.is_http else result.get_response()
    assert response["id"] == "7"
    outputs = [client.module.InferRequestedOutput("y", class_count=3)]
    classes = client.call("infer", "affine", [client.input()], outputs=outputs).as_numpy("y")
    assert [c.decode() for c in classes] == ["15.000000:7", "13.000000:6", "11.000000:5"]
    for algorithm in ("gzip", "deflate"):
        options = {"request_compression_algorithm": algorithm}
        options["response_compression_algorithm"] = algorithm
        if not client.is_http:
            options = {"compression_algorithm": algorithm}
        result = client.call("infer", "affine", [client.input()], **options)
        np.testing.assert_array_equal(result.as_numpy("y"), Y)
    with pytest.raises(InferenceServerException, match="'nope' is not found"):
        client.call("infer", "nope", [client.input()])


def async_infer(client):
    if client.is_http:
        requests = [client.call("async_infer", "affine", [client.input()]) for _ in range(5)]
        answers = [request.get_result() for request in requests]
    else:
        answers = []
        done = threading.Semaphore(0)

        def keep(result, error):
            answers.append(result)
            done.release()

        for _ in range(5):
            client.call("async_infer", "affine", [client.input()], callback=keep)
        for _ in range(5):
            assert done.acquire(timeout=60)
    assert len(answers) == 5
    for answer in answers:
        np.testing.assert_array_equal(answer.as_numpy("y"), Y)


def streams(client):
    if client.is_async:

        async def requests():
            for i in range(5):
                yield {"model_name": "affine", "inputs": [client.input()], "request_id": str(i)}

        async def read():
            return [answer async for answer in client.client.stream_infer(requests())]

        answers = client.loop.run_until_complete(read())
    else:
        answers = []
        client.call("start_stream", lambda result, error: answers.append((result, error)))
        for i in range(5):
            client.call("async_stream_infer", "affine", [client.input()], request_id=str(i))
        client.call("stop_stream")
    assert len(answers) == 5
    for result, error in answers:
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("y"), Y)


def trace_settings(client):
    def settings(answer):
        if isinstance(answer, dict):
            return answer
        return {name: list(value.value) for name, value in answer.settings.items()}

    def first(value):
        return value[0] if isinstance(value, list) else value

    before = settings(client.call("get_trace_settings"))
    assert (first(before["trace_level"]), first(before["trace_rate"])) == ("OFF", "1000")
    changed = settings(client.call("update_trace_settings", "affine", {"trace_rate": "3"}))
    assert first(changed["trace_rate"]) == "3"
    assert settings(client.call("get_trace_settings", "affine")) == changed
    assert settings(client.call("get_trace_settings")) == before
    client.call("update_trace_settings", "affine", {"trace_rate": None})
    assert settings(client.call("get_trace_settings", "affine")) == before


def bodies(client):
    body, length = client.module.InferenceServerClient.generate_request_body([client.input()])
    assert length and len(body) == length + X.nbytes
    text = b'{"outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[1.5]}]}'
    result = client.module.InferenceServerClient.parse_response_body(text)
    assert result.as_numpy("y") == [1.5]


def plugins(client):
    seen = []

    class Plugin(tritonclient.grpc.InferenceServerClientPlugin):
        def __call__(self, request):
            seen.append(request)

    client.client.register_plugin(Plugin())
    assert client.client.plugin()
    assert client.call("is_server_live")
    assert len(seen) == 1
    client.client.unregister_plugin()


def cuda_shared_memory(client):
    """On a machine without GPUs; tests/protocol/test_cuda_shared_memory.py has the others."""
    handle = base64.b64encode(bytes(64))
    if client.is_http:
        handle = handle.decode()
    with pytest.raises(InferenceServerException, match="'r'") as error:
        client.call("register_cuda_shared_memory", "r", handle, 0, 64)
    assert error.value.status() in ("StatusCode.INVALID_ARGUMENT", "400"), str(error.value)
    regions = client.call("get_cuda_shared_memory_status")
    assert not (regions if isinstance(regions, list) else regions.regions)
    with pytest.raises(InferenceServerException, match="Unable to find .* 'r'"):
        client.call("get_cuda_shared_memory_status", "r")
    client.call("unregister_cuda_shared_memory", "r")
    client.call("unregister_cuda_shared_memory")


def refused(*calls):
    """Each call is refused in words; what comes of them is the note."""

    def ask(client):
        for method, *arguments in calls:
            with pytest.raises(InferenceServerException) as error:
                client.call(method, *arguments)
            assert error.value.status() in ("StatusCode.UNIMPLEMENTED", "501"), str(error.value)
            assert "not supported" in str(error.value) or "CUDA" in str(error.value)

    return ask


CASES = [
    (health, ("is_server_live", "is_server_ready", "is_model_ready"), WORKS, ""),
    (metadata, ("get_server_metadata", "get_model_metadata", "get_model_config"), WORKS, ""),
    (
        repository,
        ("get_model_repository_index", "load_model", "unload_model"),
        WORKS,
        "config and file overrides too; needs --model-control-mode explicit",
    ),
    (load_model_refuses, (), WORKS, ""),
    (statistics, ("get_inference_statistics",), WORKS, ""),
    (
        log_settings,
        ("get_log_settings", "update_log_settings"),
        WORKS,
        "all but log_file, which Triton refuses too",
    ),
    (
        system_shared_memory,
        (
            "register_system_shared_memory",
            "get_system_shared_memory_status",
            "unregister_system_shared_memory",
        ),
        WORKS,
        "needs --allow-client-shm true, as in Triton",
    ),
    (infer, ("infer",), WORKS, "raw and JSON data, shared memory, classification, compression"),
    (async_infer, ("async_infer",), WORKS, ""),
    (
        streams,
        ("start_stream", "async_stream_infer", "stop_stream", "stream_infer"),
        WORKS,
        "one response a request",
    ),
    (bodies, ("generate_request_body", "parse_response_body"), WORKS, ""),
    (plugins, ("register_plugin", "unregister_plugin", "plugin"), WORKS, ""),
    (
        trace_settings,
        ("get_trace_settings", "update_trace_settings"),
        WORKS,
        "of all models and of one; all but trace_file, which Triton refuses too",
    ),
    (
        cuda_shared_memory,
        (
            "register_cuda_shared_memory",
            "get_cuda_shared_memory_status",
            "unregister_cuda_shared_memory",
        ),
        WORKS,
        "needs --allow-client-shm true; without a GPU nothing can be registered, as in Triton",
    ),
]


@pytest.fixture(scope="module")
def serving(plans, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clients")
    for name in ("affine", "add_sub"):
        (folder / name).symlink_to(plans / name)
    options = (
        "--model-control-mode",
        "explicit",
        "--load-model",
        "*",
        "--allow-client-shm",
        "true",
    )
    server = Server(folder, options=options, log=tmp_path_factory.mktemp("log") / "serve.log")
    server.folder = folder
    yield server
    assert server.stop() == 0, server.log.read_text()


def name_of(case):
    return case[1][0] if case[1] else case[0].__name__


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_call(serving, name, case):
    check, methods, status, note = case
    methods = [m for m in methods if hasattr(CLIENTS[name].InferenceServerClient, m)]
    if case[1] and not methods:
        pytest.skip("this client has no such call")
    client = Client(name, serving)
    try:
        check(client)
        for method in methods:
            rows[name, method] = compatibility.row(name, method, status, note)
    finally:
        client.close()
        rows[name, "close"] = compatibility.row(name, "close")
    assert_well(serving.client)


@pytest.mark.parametrize("name", CLIENTS)
def test_no_call_is_left_out(name):
    methods = {m for m in dir(CLIENTS[name].InferenceServerClient) if not m.startswith("_")}
    covered = {m for _, calls, _, _ in CASES for m in calls} | {"close"}
    assert methods <= covered


def test_shared_memory_utilities():
    key = f"/tutti_{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region("u", key, 64)
    assert key in shm.mapped_shared_memory_regions()
    shm.set_shared_memory_region(handle, [serialize_byte_tensor(np.array(["a", "bc"], np.object_))])
    texts = shm.get_contents_as_numpy(handle, np.object_, [2])
    assert list(texts) == [b"a", b"bc"]
    shm.destroy_shared_memory_region(handle)
    calls = ("create_shared_memory_region", "set_shared_memory_region", "get_contents_as_numpy",
             "mapped_shared_memory_regions", "destroy_shared_memory_region")  # fmt: skip
    name = "tritonclient.utils.shared_memory"
    for call in calls:
        rows[name, call] = compatibility.row(name, call)


def test_the_page_says_what_the_run_saw():
    """Last: after the others have filled the table."""
    expected = sum(
        len({m for m in dir(module.InferenceServerClient) if not m.startswith("_")})
        for module in CLIENTS.values()
    )
    if len(rows) < expected + 5:
        pytest.skip("not all calls were asked in this run")
    compatibility.check(rows.values())
