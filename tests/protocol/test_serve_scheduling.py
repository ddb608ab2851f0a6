"""Queues, priorities, batches and what instances share, as clients see them."""

import math
import threading
import time

import numpy as np
import pytest
import tiny_models
import tritonclient.grpc as triton
from serving import Answers, infer_affine, tensor

LONG_SECONDS = 1.5  # of a run that others queue up behind: many times what sending them takes


def rows_of(count, first=1.0):
    return np.arange(first, first + 4 * count, dtype=np.float32).reshape(count, 4)


def ones_request(count):
    return [tensor("x", np.ones((count, 4), np.float32), "FP32")]


def short_request(count=1, first=1.0):
    return [tensor("x", rows_of(count, first), "FP32")]


def right(count, first=1.0):
    return rows_of(count, first) * np.float32(tiny_models.DEEP_SCALE)


@pytest.fixture(scope="session")
def long_rows(served):
    """Rows that keep the deep model busy for about LONG_SECONDS on this machine."""
    count = 10000
    while True:
        begin = time.monotonic()
        served.client.infer("deep", ones_request(count))
        seconds = time.monotonic() - begin
        if seconds > LONG_SECONDS / 8:
            return math.ceil(count * LONG_SECONDS / seconds)
        count *= 2


@pytest.fixture
def serve_deep(repository, start):
    """serve_deep(text) -> Server with the deep model and this configuration."""

    def serve(text):
        folder = repository.add("deep", config=False)
        (folder / "config.pbtxt").write_text(text)
        return start(repository.path)

    return serve


def stats(client, model="deep"):
    return client.get_inference_statistics(model).model_stats[0]


def test_queue_timeout_behind_a_long_run(serve_deep, long_rows):
    server = serve_deep(
        "dynamic_batching { default_queue_policy {"
        " default_timeout_microseconds: 50000 allow_timeout_override: true } }"
    )
    answers = Answers(server, "deep")
    answers.send_to_idle("long", ones_request(long_rows))
    answers.send_to_queue("late", short_request())
    answers.send_to_queue("hasty", short_request(), timeout=1000)
    answers.wait()
    # The long run had not ended when the others were refused.
    assert answers.order[-1] == "long"
    for name in ("hasty", "late"):
        assert answers.status(name) == "StatusCode.UNAVAILABLE"
        assert "Request timeout expired" in answers.message(name)
    assert (answers.y("long") == tiny_models.DEEP_SCALE).all()
    assert stats(server.client).inference_stats.fail.count == 2
    assert stats(server.client).inference_stats.success.count == 1


def test_requests_own_timeout_without_a_policy(serve_deep, long_rows):
    server = serve_deep("")
    answers = Answers(server, "deep")
    answers.send_to_idle("long", ones_request(long_rows))
    answers.send_to_queue("hasty", short_request(), timeout=20000)
    answers.wait()
    assert answers.order == ["hasty", "long"]
    assert answers.status("hasty") == "StatusCode.DEADLINE_EXCEEDED"


def test_full_queue_is_unavailable_and_takes_requests_again(serve_deep, long_rows):
    server = serve_deep("dynamic_batching { default_queue_policy { max_queue_size: 2 } }")
    answers = Answers(server, "deep")
    answers.send_to_idle("long", ones_request(long_rows))
    names = [f"n{i}" for i in range(136 + 3)]
    for name in names:
        answers.send(name, short_request())
    answers.wait()
    refused = [name for name in names if answers.status(name) is not None]
    assert len(refused) >= 136
    for name in refused:
        assert answers.status(name) == "StatusCode.UNAVAILABLE"
        assert "Exceeds maximum queue size" in answers.message(name)
    assert server.pending("deep") == 0
    for _ in range(3):
        server.client.infer("deep", short_request())
    assert server.client.is_server_ready()
    assert server.pending("deep") == 0


def test_urgent_requests_pass_others(serve_deep, long_rows):
    server = serve_deep("dynamic_batching { priority_levels: 3 default_priority_level: 2 }")
    answers = Answers(server, "deep")
    answers.send_to_idle("long", ones_request(long_rows))
    for name, priority in (("low", 3), ("default", 0), ("high", 1), ("high again", 1)):
        # Long enough that no answer overtakes the one before it on its way.
        answers.send_to_queue(name, ones_request(long_rows // 50), priority=priority)
    answers.wait()
    assert answers.order == ["long", "high", "high again", "default", "low"]


def test_client_that_goes_away_is_dropped_from_the_queue(serve_deep, long_rows):
    server = serve_deep("")
    answers = Answers(server, "deep")
    answers.send_to_idle("long", ones_request(long_rows))
    call = answers.send_to_queue("gone", short_request())
    answers.send_to_queue("after", short_request(first=50))
    call.cancel()
    answers.wait()
    np.testing.assert_array_equal(answers.y("after"), right(1, 50))
    assert answers.status("gone") == "StatusCode.CANCELLED"
    assert stats(server.client).execution_count == 2  # "gone" never ran


def test_batches_are_joined_and_split(serve_deep, long_rows):
    server = serve_deep(f"max_batch_size: {long_rows}\ndynamic_batching {{ }}")
    answers = Answers(server, "deep")
    answers.send_to_idle("long", ones_request(long_rows))
    sizes = (10, 2, 10)
    for i, count in enumerate(sizes):
        answers.send_to_queue(f"n{i}", short_request(count, first=100 * i))
    answers.wait()
    for i, count in enumerate(sizes):
        np.testing.assert_array_equal(answers.y(f"n{i}"), right(count, 100 * i))
    seen = stats(server.client)
    assert seen.inference_count == long_rows + sum(sizes)
    assert seen.execution_count == 2
    assert {batch.batch_size: batch.compute_infer.count for batch in seen.batch_stats} == {
        long_rows: 1,
        sum(sizes): 1,
    }
    assert seen.inference_stats.success.count == 1 + len(sizes)
    assert seen.inference_stats.compute_infer.count == 1 + len(sizes)


def test_batches_one_after_the_other(serve_deep):
    client = serve_deep(
        "max_batch_size: 16\ndynamic_batching { preferred_batch_size: [ 4, 8 ]"
        " max_queue_delay_microseconds: 1000 }"
    ).client
    for i, count in enumerate((10, 2, 10)):
        answer = client.infer("deep", short_request(count, first=100 * i)).as_numpy("y")
        np.testing.assert_array_equal(answer, right(count, 100 * i))


def test_different_sizes_of_other_axes_never_join(repository, start):
    folder = repository.add("square", config=False)
    (folder / "config.pbtxt").write_text(
        "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 500000 }"
    )
    server = start(repository.path)
    answers = Answers(server, "square")
    arrays = [np.full((2, side, side), side, np.float32) for side in (2, 3, 2, 3)]
    for i, x in enumerate(arrays):
        answers.send(f"n{i}", [tensor("x", x, "FP32")])
    answers.wait()
    for i, x in enumerate(arrays):
        np.testing.assert_array_equal(answers.y(f"n{i}"), x @ x)
    assert stats(server.client, "square").inference_count == 8
    assert 2 <= stats(server.client, "square").execution_count <= 4


def with_ranks(config, ranks, count=1):
    text = config.read_text()
    assert 'string_value: "0,1"' in text
    text = text.replace('string_value: "0,1"', f'string_value: "{ranks}"')
    config.write_text(text.replace("count: 1", f"count: {count}"))


def attention_request(seed):
    shape = (1, tiny_models.TOKENS, tiny_models.WIDTH)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return x, [tensor("x", x, "FP32")]


def ask_all(server, models, expected, turns=6):
    """Every model from threads of its own, all answers right."""
    wrong = []

    def work(model, seed):
        x, inputs = attention_request(seed)
        with triton.InferenceServerClient(server.url) as client:
            for _ in range(turns):
                answer = client.infer(model, inputs).as_numpy("y")
                right = expected(x)
                if np.abs(answer - right).max() > 1e-4 * np.abs(right).max():
                    wrong.append((model, seed))

    threads = [
        threading.Thread(target=work, args=(model, seed)) for seed, model in enumerate(models)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_models_that_share_ranks_do_not_deadlock(repository, start, onnx_files):
    with_ranks(repository.add("attention_cp2", "a") / "config.pbtxt", "0,1")
    with_ranks(repository.add("attention_cp2", "b") / "config.pbtxt", "1,0")
    with_ranks(repository.add("attention_cp2", "c") / "config.pbtxt", "1,2", count=2)
    server = start(repository.path)
    ask_all(
        server,
        ["a", "b", "c"] * 2,
        lambda x: tiny_models.reference(onnx_files["attention"], x=x)[0],
    )
    for model in ("a", "b", "c"):
        assert stats(server.client, model).execution_count == 12


def test_instances_with_ranks_of_their_own(repository, start, onnx_files):
    config = repository.add("attention_cp2") / "config.pbtxt"
    with_ranks(config, "0,1;2,3", count=2)
    server = start(repository.path)
    ask_all(
        server,
        ["attention_cp2"] * 4,
        lambda x: tiny_models.reference(onnx_files["attention"], x=x)[0],
    )


def test_rate_limiter_resources(repository, start):
    for name in ("one", "two"):
        folder = repository.add("affine", name, config=False)
        (folder / "config.pbtxt").write_text(
            "instance_group [ { kind: KIND_CPU count: 2 rate_limiter {"
            ' resources [ { name: "R1" count: 4 }, { name: "R2" global: true count: 2 } ]'
            " priority: 2 } } ]"
        )
    limits = ("--rate-limit-resource", "R1:4:0", "--rate-limit-resource", "R2:3")
    client = start(repository.path, options=("--rate-limit", "execution_count", *limits)).client
    for name in ("one", "two"):
        infer_affine(client, name)
    group = client.get_model_config("one").config.instance_group[0]
    assert group.rate_limiter.resources[0].count == 4
    with pytest.raises(RuntimeError, match="resource 'R1 of cpu:0' is limited to 3"):
        start(
            repository.path,
            options=("--rate-limit", "execution_count", "--rate-limit-resource", "R1:3"),
        )
    # Without the flag the resources limit nothing, as Triton has it.
    infer_affine(start(repository.path, options=("--rate-limit-resource", "R1:3")).client, "one")


def test_policies_that_cannot_be_are_refused(repository, start):
    folder = repository.add("affine", config=False)
    (folder / "config.pbtxt").write_text(
        "max_batch_size: 4\ndynamic_batching {\n  preferred_batch_size: [ 2, 8 ]\n}\n"
    )
    with pytest.raises(RuntimeError, match=r"preferred_batch_size\[1\]: 8, expected 1 to 4"):
        start(repository.path)


def test_priorities_of_a_model_without_levels_are_ignored(client):
    x = np.ones((1, 4), np.float32)
    for priority in (0, 1, 99):
        answer = client.infer("affine", [tensor("x", x, "FP32")], priority=priority)
        np.testing.assert_array_equal(answer.as_numpy("y"), 2 * x + 1)
