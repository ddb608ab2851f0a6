import threading

import numpy as np
import pytest
import tiny_models
import tritonclient.grpc as triton
from serving import RANKS, tensor


def test_affine_equals_numpy(client):
    for rows in (1, 10, 2, 10, 1000):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        result = client.infer("affine", [tensor("x", x, "FP32")], request_id=f"r{rows}")
        assert result.get_response().id == f"r{rows}"
        assert result.get_response().model_version == "1"
        np.testing.assert_array_equal(result.as_numpy("y"), x * np.float32(2) + np.float32(1))


def test_add_sub_as_in_tritons_examples(client):
    a = np.arange(16, dtype=np.int32).reshape(1, 16)
    b = np.full((1, 16), 3, np.int32)
    inputs = [tensor("INPUT0", a, "INT32"), tensor("INPUT1", b, "INT32")]
    result = client.infer("add_sub", inputs)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)
    only = [triton.InferRequestedOutput("OUTPUT1")]
    result = client.infer("add_sub", inputs[::-1], outputs=only)
    assert result.as_numpy("OUTPUT0") is None
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)


def test_half_precision(client):
    x = np.array([0.5, -2, 65504, np.inf, np.nan], np.float16)
    result = client.infer("cast", [tensor("x", x, "FP16")])
    np.testing.assert_array_equal(result.as_numpy("y"), x.astype(np.float32))


@pytest.mark.parametrize("ranks", RANKS)
def test_attention_over_ranks_equals_onnxruntime(client, onnx_files, ranks):
    x = np.random.default_rng(ranks).standard_normal((1, tiny_models.TOKENS, tiny_models.WIDTH))
    x = x.astype(np.float32)
    (expected,) = tiny_models.reference(onnx_files["attention"], x=x)
    answer = client.infer(f"attention_cp{ranks}", [tensor("x", x, "FP32")]).as_numpy("y")
    assert np.abs(answer - expected).max() <= 1e-4 * np.abs(expected).max()


def test_compression(client):
    x = np.ones((50, 4), np.float32)
    for algorithm in ("gzip", "deflate"):
        result = client.infer("affine", [tensor("x", x, "FP32")], compression_algorithm=algorithm)
        np.testing.assert_array_equal(result.as_numpy("y"), 2 * x + 1)


def test_asynchronous_calls(client):
    answers = {}
    done = threading.Semaphore(0)

    def keep(index):
        def callback(result, error):
            answers[index] = error or result.as_numpy("y")
            done.release()

        return callback

    inputs = [np.full((1, 4), i, np.float32) for i in range(40)]
    for i, x in enumerate(inputs):
        client.async_infer("affine", [tensor("x", x, "FP32")], keep(i))
    for _ in inputs:
        assert done.acquire(timeout=60)
    for i, x in enumerate(inputs):
        np.testing.assert_array_equal(answers[i], 2 * x + 1)


def test_many_clients_at_once(served):
    wrong = []

    def work(seed):
        with triton.InferenceServerClient(served.url) as client:
            random = np.random.default_rng(seed)
            for _ in range(10):
                x = random.standard_normal((3, 4)).astype(np.float32)
                y = client.infer("affine", [tensor("x", x, "FP32")]).as_numpy("y")
                if not np.array_equal(y, x * np.float32(2) + np.float32(1)):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tensor_of_16_megabytes(client):
    x = np.arange(4 << 20, dtype=np.float32).reshape(-1, 4)
    y = client.infer("affine", [tensor("x", x, "FP32")]).as_numpy("y")
    assert np.array_equal(y, x * np.float32(2) + np.float32(1))
