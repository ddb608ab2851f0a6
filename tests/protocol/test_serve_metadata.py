import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
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
        "trace",
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


def test_health_is_watched(repository, start):
    """What a load balancer holds open: a message at once, and one for each change."""
    repository.add("affine")
    options = ("--model-control-mode", "explicit", "--load-model", "affine")
    server = start(repository.path, options=options)
    states = health_pb2.HealthCheckResponse
    with grpc.insecure_channel(server.url) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest())
        unknown = health.Watch(health_pb2.HealthCheckRequest(service="nope"))
        assert next(watch).status == states.SERVING
        assert next(unknown).status == states.SERVICE_UNKNOWN
        # A model that was asked for and does not load, until nobody asks for it.
        (repository.path / "broken" / "1").mkdir(parents=True)
        (repository.path / "broken" / "1" / "model.plan").write_text("no plan")
        with pytest.raises(InferenceServerException):
            server.client.load_model("broken")
        assert next(watch).status == states.NOT_SERVING
        server.client.unload_model("broken")
        assert next(watch).status == states.SERVING
        unknown.cancel()
        assert server.stop() == 0, "an open watch does not hold up the stop"
        assert [state.status for state in watch] == [states.NOT_SERVING]


def test_reflection_describes_the_services(served):
    """As grpcurl and others do: names, then messages, without our .proto files."""
    with grpc.insecure_channel(served.url) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        names = set(database.get_services())
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= names
        pool = DescriptorPool(database)
        service = pool.FindServiceByName("inference.GRPCInferenceService")
        assert len(service.methods) == 20
        request = service.FindMethodByName("ServerMetadata").input_type
        assert request.full_name == "inference.ServerMetadataRequest"
        # Enough to make a call.
        answer = GetMessageClass(service.FindMethodByName("ServerMetadata").output_type)
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ServerMetadata",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        assert call(GetMessageClass(request)()).name == "tutti"
