"""Every bad request: refused with a reason, and the server is as well as before."""

import grpc
import pytest
from serving import assert_well
from tritonclient.grpc import service_pb2, service_pb2_grpc


@pytest.fixture
def stub(served):
    with grpc.insecure_channel(served.url) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(shape=(2, 4), datatype="FP32", raw=32, model="affine", name="x"):
    message = service_pb2.ModelInferRequest(model_name=model)
    message.inputs.add(name=name, datatype=datatype, shape=shape)
    if raw is not None:
        message.raw_input_contents.append(bytes(raw))
    return message


def refuse(stub, client, message, *parts, code=grpc.StatusCode.INVALID_ARGUMENT):
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(message)
    assert error.value.code() == code, error.value.details()
    for part in parts:
        assert part in error.value.details()
    assert_well(client)


def test_negative_size(stub, client):
    refuse(stub, client, request(shape=(-1, 4)), "input 'x'", "[-1, 4]", "negative")


def test_shape_that_overflows(stub, client):
    refuse(stub, client, request(shape=(16, 2**60 + 2)), "input 'x'", str(2**60 + 2))
    refuse(stub, client, request(shape=(2**62, 2**62)), "input 'x'")


def test_bytes_elements(stub, client):
    for data in (b"abc", b"\x05\0\0\0ab", b"\xff\xff\xff\xff", b"\x01\0\0\0a\x01"):
        message = request(shape=(1,), datatype="BYTES", raw=None)
        message.raw_input_contents.append(data)
        refuse(stub, client, message, "input 'x'", "BYTES element")


def test_contents_beside_raw_contents(stub, client):
    message = request()
    message.inputs[0].contents.fp32_contents.extend([0.0] * 8)
    refuse(stub, client, message, "input 'x'", "raw_input_contents")


def test_contents_of_another_type_or_length(stub, client):
    message = request(raw=None)
    message.inputs[0].contents.int_contents.extend([0] * 8)
    refuse(stub, client, message, "int_contents", "fp32_contents")
    message = request(raw=None)
    message.inputs[0].contents.fp32_contents.extend([0.0] * 7)
    refuse(stub, client, message, "28 bytes", "32")


def test_duplicate_names(stub, client):
    message = request()
    message.inputs.append(message.inputs[0])
    message.raw_input_contents.append(message.raw_input_contents[0])
    refuse(stub, client, message, "input 'x'", "twice")
    message = request()
    message.outputs.add(name="y")
    message.outputs.add(name="y")
    refuse(stub, client, message, "output 'y'", "twice")


def test_unknown_and_missing_names(stub, client):
    refuse(stub, client, request(name="z"), "input 'z'", "'x'")
    message = request()
    message.outputs.add(name="z")
    refuse(stub, client, message, "output 'z'", "'y'")
    refuse(stub, client, service_pb2.ModelInferRequest(model_name="affine"), "input 'x' is missing")


def test_sizes_and_types(stub, client):
    refuse(stub, client, request(raw=31), "31 bytes", "expected 32")
    refuse(stub, client, request(raw=0), "0 bytes", "expected 32")
    refuse(stub, client, request(datatype="INT32"), "INT32", "FP32")
    refuse(stub, client, request(datatype="FLOAT"), "'FLOAT'", "FP32")
    refuse(stub, client, request(shape=(4, 2)), "[4, 2]", "dimension 1")
    refuse(stub, client, request(shape=(8,)), "rank 1")
    refuse(stub, client, request(shape=[1] * 100000), "rank 100000")


def test_raw_buffers_that_are_not_one_an_input(stub, client):
    message = request()
    message.raw_input_contents.append(bytes(32))
    refuse(stub, client, message, "raw_input_contents", "2", "expected 1")


@pytest.mark.parametrize("name", ["", "..", "../etc", "a/b", "/"])
def test_names_that_are_no_model(stub, client, name):
    refuse(stub, client, request(model=name), "model name")


def test_three_dots_are_a_name_that_is_not_there(stub, client):
    refuse(stub, client, request(model="..."), "'...' is not found", code=grpc.StatusCode.NOT_FOUND)


def test_unknown_model_and_version(stub, client):
    unknown = "Request for unknown model: 'nope' is not found"
    refuse(stub, client, request(model="nope"), unknown, code=grpc.StatusCode.NOT_FOUND)
    message = request()
    message.model_version = "9"
    refuse(stub, client, message, "version 9", code=grpc.StatusCode.NOT_FOUND)
    for version in ("-1", "1.0", "one", "9" * 30):
        message.model_version = version
        refuse(stub, client, message, "version", "digits")


def test_control_characters_come_back_escaped(stub, client):
    refuse(stub, client, request(name="x\x1b[31m\n"), "\\x1b[31m\\x0a")


def test_what_is_not_supported_says_so(stub, client):
    sequence = request()
    sequence.parameters["sequence_id"].int64_param = 5
    refuse(stub, client, sequence, "sequence_id", code=grpc.StatusCode.UNIMPLEMENTED)
    assert_well(client)


def test_shared_memory_that_is_not_there(stub, client):
    shared = request(raw=None)
    shared.inputs[0].parameters["shared_memory_region"].string_param = "region"
    refuse(stub, client, shared, "input 'x'", "shared_memory_byte_size")
    shared.inputs[0].parameters["shared_memory_byte_size"].int64_param = 32
    missing = "Unable to find shared memory region: 'region'"
    refuse(stub, client, shared, missing, code=grpc.StatusCode.NOT_FOUND)
    shared.inputs[0].contents.fp32_contents.extend([0.0] * 8)
    refuse(stub, client, shared, "beside shared memory")
    shared = request()
    shared.inputs[0].parameters["shared_memory_region"].string_param = "region"
    shared.inputs[0].parameters["shared_memory_byte_size"].int64_param = 32
    refuse(stub, client, shared, "raw_input_contents", "1", "expected 0")


def test_bytes_that_are_no_message(served, client):
    with grpc.insecure_channel(served.url) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError):
            call(b"\x0a\x7fabc")
        unknown = channel.unary_unary("/inference.GRPCInferenceService/Nope")
        with pytest.raises(grpc.RpcError) as error:
            unknown(b"")
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert_well(client)


def test_failures_are_not_counted_as_successes(served, client, stub):
    before = client.get_inference_statistics("add_sub").model_stats[0].inference_stats
    message = request(model="add_sub", name="INPUT0")
    for _ in range(3):
        refuse(stub, client, message)
    after = client.get_inference_statistics("add_sub").model_stats[0].inference_stats
    assert after.success.count == before.success.count
    assert after.fail.count == before.fail.count + 3
