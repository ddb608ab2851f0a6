"""System shared memory, over both front ends: tensors stay where the client has put them."""

import base64
import http.client
import json
import os
import uuid

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from cosmos.cuda_region import runtime
from serving import Server, assert_well
from tritonclient.utils import InferenceServerException

CLIENTS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
X = np.arange(8, dtype=np.float32).reshape(2, 4)
Y = 2 * X + 1


@pytest.fixture(scope="module")
def sharing(plans, tmp_path_factory):
    log = tmp_path_factory.mktemp("sharing") / "serve.log"
    server = Server(plans, options=("--allow-client-shm", "true"), log=log)
    yield server
    assert server.stop() == 0, log.read_text()


@pytest.fixture(params=sorted(CLIENTS))
def api(request, sharing):
    """The client's module and a client; the server must be well, and know no region, afterwards."""
    module = CLIENTS[request.param]
    url = sharing.url if request.param == "grpc" else sharing.http_url
    with module.InferenceServerClient(url) as client:
        yield module, client
        client.unregister_system_shared_memory()
    assert_well(sharing.client)


@pytest.fixture
def region():
    """region(name, bytes) -> handle of a region with a key of its own."""
    made = []

    def make(name, byte_size):
        handle = shm.create_shared_memory_region(name, f"/tutti_{uuid.uuid4().hex}", byte_size)
        made.append(handle)
        return handle

    yield make
    for handle in made:
        shm.destroy_shared_memory_region(handle)


def key_of(handle):
    return handle._shm_key


def shared_input(module, region, byte_size, offset=0, shape=(2, 4)):
    tensor = module.InferInput("x", list(shape), "FP32")
    tensor.set_shared_memory(region, byte_size, offset)
    return tensor


def shared_output(module, region, byte_size, offset=0):
    output = module.InferRequestedOutput("y")
    output.set_shared_memory(region, byte_size, offset)
    return output


def status(client):
    """name -> (offset, byte_size), whatever the front end."""
    regions = client.get_system_shared_memory_status()
    if isinstance(regions, list):
        return {r["name"]: (r["offset"], r["byte_size"]) for r in regions}
    return {name: (r.offset, r.byte_size) for name, r in regions.regions.items()}


def test_in_and_out_of_shared_memory(api, region):
    module, client = api
    handle = region("io", 128)
    shm.set_shared_memory_region(handle, [X])
    client.register_system_shared_memory("io", key_of(handle), 128)
    assert status(client) == {"io": (0, 128)}
    result = client.infer(
        "affine", [shared_input(module, "io", 32)], outputs=[shared_output(module, "io", 64, 64)]
    )
    np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [2, 4], 64), Y)
    output = result.get_output("y")
    if isinstance(output, dict):  # Triton's C++ client takes "parameters" for a sign of binary data
        assert output == {"name": "y", "datatype": "FP32", "shape": [2, 4]}
    else:
        assert not output.HasField("contents")
    # The rest is as it was.
    np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [2, 4]), X)
    client.unregister_system_shared_memory("io")
    assert status(client) == {}


def test_shared_input_and_answered_output(api, region):
    module, client = api
    handle = region("in", 32)
    shm.set_shared_memory_region(handle, [X])
    client.register_system_shared_memory("in", key_of(handle), 32)
    result = client.infer("affine", [shared_input(module, "in", 32)])
    np.testing.assert_array_equal(result.as_numpy("y"), Y)


def test_one_of_two_inputs_and_outputs(api, region):
    module, client = api
    a = np.arange(16, dtype=np.int32).reshape(1, 16)
    b = np.full((1, 16), 3, np.int32)
    handle = region("half", 128)
    shm.set_shared_memory_region(handle, [a])
    client.register_system_shared_memory("half", key_of(handle), 128)
    shared = module.InferInput("INPUT0", [1, 16], "INT32")
    shared.set_shared_memory("half", 64)
    sent = module.InferInput("INPUT1", [1, 16], "INT32")
    sent.set_data_from_numpy(b)
    to_memory = module.InferRequestedOutput("OUTPUT0")
    to_memory.set_shared_memory("half", 64, 64)
    outputs = [to_memory, module.InferRequestedOutput("OUTPUT1")]
    for inputs in ([shared, sent], [sent, shared]):
        result = client.infer("add_sub", inputs, outputs=outputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)
        there = shm.get_contents_as_numpy(handle, np.int32, [1, 16], 64)
        np.testing.assert_array_equal(there, a + b)


def test_places_that_are_not_aligned(api, region):
    module, client = api
    handle = region("odd", 100)
    shm.set_shared_memory_region(handle, [X], offset=1)
    client.register_system_shared_memory("odd", key_of(handle), 99, offset=1)
    outputs = [shared_output(module, "odd", 32, 33)]
    client.infer("affine", [shared_input(module, "odd", 32)], outputs=outputs)
    np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [2, 4], 34), Y)


@pytest.mark.parametrize("key", ["/", "///x", "//x", "", "/a/b", "/..", "/.", "/" + "k" * 300])
def test_keys_that_are_none(api, key):
    _, client = api
    with pytest.raises(InferenceServerException) as error:
        client.register_system_shared_memory("bad", key, 64)
    assert "'bad'" in str(error.value)
    if len(key) > 2:
        assert key not in str(error.value)
    assert status(client) == {}


def test_a_key_behind_which_nothing_is(api):
    _, client = api
    key = f"/tutti_secret_{uuid.uuid4().hex}"
    with pytest.raises(InferenceServerException) as error:
        client.register_system_shared_memory("bad", key, 64)
    assert key.strip("/") not in str(error.value)


def test_what_is_outside_the_memory(api, region):
    module, client = api
    handle = region("small", 64)
    for byte_size, offset in ((65, 0), (64, 1), (1, 64), (2**63, 2**63), (64, 2**64 - 32), (0, 0)):
        with pytest.raises(InferenceServerException):
            client.register_system_shared_memory("small", key_of(handle), byte_size, offset)
    client.register_system_shared_memory("small", key_of(handle), 64)
    with pytest.raises(InferenceServerException, match="already in manager"):
        client.register_system_shared_memory("small", key_of(handle), 64)
    for byte_size, offset in ((32, 33), (32, 2**62), (65, 0)):
        with pytest.raises(InferenceServerException, match="has 64 bytes"):
            client.infer("affine", [shared_input(module, "small", byte_size, offset)])
        outputs = [shared_output(module, "small", byte_size, offset)]
        with pytest.raises(InferenceServerException, match="has 64 bytes"):
            client.infer("affine", [shared_input(module, "small", 32)], outputs=outputs)
    with pytest.raises(InferenceServerException, match="36 bytes"):
        client.infer("affine", [shared_input(module, "small", 36)])
    with pytest.raises(InferenceServerException, match="32 bytes do not fit into the 28"):
        outputs = [shared_output(module, "small", 28, 32)]
        client.infer("affine", [shared_input(module, "small", 32)], outputs=outputs)
    with pytest.raises(
        InferenceServerException, match="Unable to find shared memory region: 'gone'"
    ):
        client.infer("affine", [shared_input(module, "gone", 32)])
    with pytest.raises(
        InferenceServerException, match="Unable to find shared memory region: 'gone'"
    ):
        client.get_system_shared_memory_status("gone")


def test_memory_that_its_owner_cuts_off(api, region):
    module, client = api
    handle = region("cut", 8192)
    client.register_system_shared_memory("cut", key_of(handle), 8192)
    os.truncate(f"/dev/shm/{key_of(handle).lstrip('/')}", 16)
    with pytest.raises(InferenceServerException, match="smaller by now"):
        client.infer("affine", [shared_input(module, "cut", 32, 4096)])


def test_off_unless_allowed(served, region):
    handle = region("off", 64)
    for name, module in CLIENTS.items():
        url = served.url if name == "grpc" else served.http_url
        with module.InferenceServerClient(url) as client:
            with pytest.raises(InferenceServerException, match="--allow-client-shm") as error:
                client.register_system_shared_memory("off", key_of(handle), 64)
            assert error.value.status() in ("StatusCode.UNIMPLEMENTED", "501")
            with pytest.raises(InferenceServerException, match="--allow-client-shm"):
                client.unregister_system_shared_memory()
            assert status(client) == {}
    assert_well(served.client)


def test_classes_do_not_go_into_shared_memory(api, region):
    module, client = api
    handle = region("classes", 64)
    client.register_system_shared_memory("classes", key_of(handle), 64)
    request = shared_output(module, "classes", 64)
    if module is tritonclient.grpc:
        request._output.parameters["classification"].int64_param = 2
    else:
        request._parameters["classification"] = 2
    with pytest.raises(InferenceServerException, match="classification"):
        client.infer("affine", [shared_input(module, "classes", 32)], outputs=[request])


def test_cuda_memory_is_refused_in_words(api, region):
    """The answers that need no GPU, and are the same with one."""
    module, client = api
    handle = base64.b64encode(bytes(range(64))).decode()
    with pytest.raises(InferenceServerException, match="'c'") as error:
        client.register_cuda_shared_memory("c", handle, 0, 64)
    assert error.value.status() in ("StatusCode.INVALID_ARGUMENT", "400")
    if not runtime():
        assert "GPUs not supported: no loaded backend has CUDA memory" in str(error.value)
    with pytest.raises(InferenceServerException, match="name is empty|Not Found"):
        client.register_cuda_shared_memory("", handle, 0, 64)
    with pytest.raises(InferenceServerException, match="'c'"):
        client.register_cuda_shared_memory("c", handle, 0, 0)
    system = region("s", 64)
    client.register_system_shared_memory("s", key_of(system), 64)
    with pytest.raises(InferenceServerException, match="already in manager"):
        client.register_cuda_shared_memory("s", handle, 0, 64)
    with pytest.raises(InferenceServerException, match="Unable to find .* 's'"):
        client.get_cuda_shared_memory_status("s")
    client.unregister_cuda_shared_memory()  # leaves the other kind alone
    assert set(status(client)) == {"s"}


@pytest.mark.parametrize(
    "body, why",
    [
        ("{}", "has no 'raw_handle' field"),
        ('{"raw_handle": {"b64": "AAAA"}, "byte_size": 1}', "has no 'device_id' field"),
        ('{"raw_handle": {"b64": "AAAA"}, "device_id": 0}', "has no 'byte_size' field"),
        ('{"raw_handle": {}, "device_id": 0, "byte_size": 1}', "'raw_handle' has no 'b64'"),
        ('{"raw_handle": {"b64": "*"}, "device_id": 0, "byte_size": 1}', "is no base64 text"),
        ('{"raw_handle": "AAAA", "device_id": 0, "byte_size": 1}', ""),
        ('{"raw_handle": {"b64": "AAAA"}, "device_id": -1, "byte_size": 1}', "'device_id'"),
        ('{"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 1.5}', "'byte_size'"),
        ("[]", ""),
    ],
)
def test_bodies_that_register_no_cuda_memory(sharing, body, why):
    connection = http.client.HTTPConnection(sharing.http_url)
    connection.request("POST", "/v2/cudasharedmemory/region/r/register", body)
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 400, text
    assert why in json.loads(text)["error"]
    connection.close()


def test_cuda_memory_is_off_unless_allowed(served):
    handle = base64.b64encode(bytes(64)).decode()
    for name, module in CLIENTS.items():
        url = served.url if name == "grpc" else served.http_url
        with module.InferenceServerClient(url) as client:
            with pytest.raises(InferenceServerException, match="--allow-client-shm"):
                client.register_cuda_shared_memory("off", handle, 0, 64)
            with pytest.raises(InferenceServerException, match="--allow-client-shm"):
                client.unregister_cuda_shared_memory()
            assert not as_json(client.get_cuda_shared_memory_status())


def as_json(regions):
    return regions if isinstance(regions, list) else list(regions.regions)
