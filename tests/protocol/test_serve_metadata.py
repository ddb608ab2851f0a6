import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from serving import RANKS
from tritonclient.utils import InferenceServerException


def test_server(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    metadata = client.get_server_metadata()
    assert metadata.name == "tutti"
    assert metadata.version
    assert set(metadata.extensions) == {
        "classification",
        "model_repository",
        "model_repository(unload_dependents)",
        "model_configuration",
        "system_shared_memory",
        "binary_tensor_data",
        "parameters",
        "statistics",
        "logging",
    }


def test_model(client):
    metadata = client.get_model_metadata("affine")
    assert metadata.name == "affine"
    assert list(metadata.versions) == ["1"]
    assert metadata.platform == "tutti_plan"
    (x,), (y,) = metadata.inputs, metadata.outputs
    assert (x.name, x.datatype, list(x.shape)) == ("x", "FP32", [-1, 4])
    assert (y.name, y.datatype, list(y.shape)) == ("y", "FP32", [-1, 4])
    assert client.get_model_metadata("affine", "1") == metadata


def test_readiness(client):
    assert client.is_model_ready("affine")
    assert client.is_model_ready("affine", "1")
    assert not client.is_model_ready("affine", "2")
    assert not client.is_model_ready("nope")


def test_unknown_model(client):
    for call in (
        client.get_model_metadata,
        client.get_model_config,
        client.get_inference_statistics,
    ):
        with pytest.raises(InferenceServerException, match="'nope' is not found") as error:
            call("nope")
        assert error.value.status() == "StatusCode.NOT_FOUND"


@pytest.mark.parametrize("ranks", RANKS)
def test_configuration_names_the_ranks(client, ranks):
    config = client.get_model_config(f"attention_cp{ranks}").config
    assert config.name == f"attention_cp{ranks}"
    assert config.backend == "tutti"
    assert config.platform == "tutti_plan"
    assert config.max_batch_size == 0
    (group,) = config.instance_group
    assert group.count == 1
    assert not group.gpus
    if ranks > 1:
        assert group.kind == group.KIND_MODEL
        assert config.parameters["enable_multi_device"].string_value in ("true", "1")
        ids = config.parameters["multi_device_gpus"].string_value.split(",")
        assert len(ids) == ranks
    else:
        assert "multi_device_gpus" not in config.parameters


def test_health_service(served):
    with grpc.insecure_channel(served.url) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        serving = health_pb2.HealthCheckResponse.SERVING
        for service in ("", "inference.GRPCInferenceService"):
            assert health.Check(health_pb2.HealthCheckRequest(service=service)).status == serving
        with pytest.raises(grpc.RpcError) as error:
            health.Check(health_pb2.HealthCheckRequest(service="nope"))
        assert error.value.code() == grpc.StatusCode.NOT_FOUND
