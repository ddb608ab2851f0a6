"""Tensors in memory of a GPU that the client shares with the server. The server runs plans on that GPU."""

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from cosmos.cuda_region import CudaRegion, runtime
from serving import Server, assert_well
from tritonclient.utils import InferenceServerException

CUDA = runtime()
pytestmark = pytest.mark.skipif(CUDA is None, reason="no GPU here")
CLIENTS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
X = np.arange(8, dtype=np.float32).reshape(2, 4)
Y = 2 * X + 1


@pytest.fixture(scope="module")
def sharing(plans, tmp_path_factory):
    log = tmp_path_factory.mktemp("sharing") / "serve.log"
    server = Server(plans, options=("--allow-client-shm", "true", "--backend", "cuda"), log=log)
    yield server
    assert server.stop() == 0, log.read_text()


@pytest.fixture(params=sorted(CLIENTS))
def api(request, sharing):
    module = CLIENTS[request.param]
    url = sharing.url if request.param == "grpc" else sharing.http_url
    with module.InferenceServerClient(url) as client:
        yield module, client
        client.unregister_cuda_shared_memory()
        client.unregister_system_shared_memory()
    assert_well(sharing.client)


@pytest.fixture
def region():
    made = []

    def make(byte_size):
        made.append(CudaRegion(CUDA, byte_size))
        return made[-1]

    yield make
    for one in made:
        one.close()


def register(module, client, name, region, byte_size=None, device=None):
    handle = region.raw_handle()
    client.register_cuda_shared_memory(
        name,
        handle if module is tritonclient.grpc else handle.decode(),
        region.device if device is None else device,
        region.byte_size if byte_size is None else byte_size,
    )


def shared_input(module, name, byte_size, offset=0):
    tensor = module.InferInput("x", [2, 4], "FP32")
    tensor.set_shared_memory(name, byte_size, offset)
    return tensor


def shared_output(module, name, byte_size, offset=0):
    output = module.InferRequestedOutput("y")
    output.set_shared_memory(name, byte_size, offset)
    return output


def floats(region, offset):
    return np.frombuffer(region.read(32, offset), np.float32).reshape(2, 4)


def status(client):
    regions = client.get_cuda_shared_memory_status()
    if isinstance(regions, list):
        return {r["name"]: (r["device_id"], r["byte_size"]) for r in regions}
    return {name: (r.device_id, r.byte_size) for name, r in regions.regions.items()}


@pytest.mark.parametrize("offset", [0, 64, 100, 33])
def test_in_and_out_of_cuda_memory(api, region, offset):
    module, client = api
    io = region(4096)
    io.write(bytes(4096))
    register(module, client, "io", io)
    assert status(client) == {"io": (0, 4096)}
    outputs = [shared_output(module, "io", 64, 2048 + offset)]
    for factor in (1, 3):  # the same place with other content
        io.write((factor * X).tobytes(), offset)
        client.infer("affine", [shared_input(module, "io", 32, offset)], outputs=outputs)
        np.testing.assert_array_equal(floats(io, 2048 + offset), 2 * factor * X + 1)
    # Nothing else was written.
    assert io.read(2048 - 33, offset + 32).count(0) == 2048 - 33
    assert io.read(32, 2048 + offset + 32) == bytes(32)
    client.unregister_cuda_shared_memory("io")
    assert status(client) == {}
    with pytest.raises(InferenceServerException, match="Unable to find shared memory region: 'io'"):
        client.infer("affine", [shared_input(module, "io", 32)])


def test_one_side_on_the_gpu(api, region):
    module, client = api
    io = region(64)
    io.write(X.tobytes())
    register(module, client, "io", io)
    result = client.infer("affine", [shared_input(module, "io", 32)])
    np.testing.assert_array_equal(result.as_numpy("y"), Y)
    sent = module.InferInput("x", [2, 4], "FP32")
    sent.set_data_from_numpy(3 * X)
    client.infer("affine", [sent], outputs=[shared_output(module, "io", 32, 32)])
    np.testing.assert_array_equal(floats(io, 32), 6 * X + 1)


def test_small_regions_are_told_apart(api, region):
    """The driver cuts small allocations from one block, which has one handle."""
    module, client = api
    regions = [region(64) for _ in range(3)]
    for i, one in enumerate(regions):
        one.write(((i + 1) * X).tobytes())
        register(module, client, f"r{i}", one)
    for i in range(3):
        result = client.infer("affine", [shared_input(module, f"r{i}", 32)])
        np.testing.assert_array_equal(result.as_numpy("y"), 2 * (i + 1) * X + 1)


def test_one_region_under_two_names(api, region):
    module, client = api
    io = region(64)
    io.write(X.tobytes())
    register(module, client, "a", io)
    register(module, client, "b", io)
    client.unregister_cuda_shared_memory("a")
    result = client.infer("affine", [shared_input(module, "b", 32)])
    np.testing.assert_array_equal(result.as_numpy("y"), Y)


def test_what_cannot_be_registered(api, region):
    module, client = api
    io = region(4 << 20)
    with pytest.raises(InferenceServerException, match="'io': the memory behind .* has"):
        register(module, client, "io", io, byte_size=1 << 40)
    with pytest.raises(InferenceServerException, match="'io': .*device 99"):
        register(module, client, "io", io, device=99)
    with pytest.raises(InferenceServerException, match="'io': byte_size is 0"):
        register(module, client, "io", io, byte_size=0)
    good, io.handle = io.handle, bytes(64)
    with pytest.raises(InferenceServerException, match="'io': the CUDA IPC handle opens no"):
        register(module, client, "io", io)
    io.handle = good[:63]
    with pytest.raises(InferenceServerException, match="has 63 bytes, expected 64"):
        register(module, client, "io", io)
    io.handle = good
    register(module, client, "io", io)
    with pytest.raises(InferenceServerException, match="already in manager"):
        register(module, client, "io", io)
    for byte_size, offset in ((32, (4 << 20) - 31), ((4 << 20) + 1, 0), (32, 2**62)):
        with pytest.raises(InferenceServerException, match="has 4194304 bytes"):
            client.infer("affine", [shared_input(module, "io", byte_size, offset)])
    with pytest.raises(InferenceServerException, match="36 bytes"):
        client.infer("affine", [shared_input(module, "io", 36)])
    with pytest.raises(InferenceServerException, match="32 bytes do not fit into the 28"):
        outputs = [shared_output(module, "io", 28, 32)]
        client.infer("affine", [shared_input(module, "io", 32)], outputs=outputs)
