"""What Prometheus would read, against what was asked."""

import json
import re

import numpy as np
import pytest
from raw_http import ask
from serving import infer_affine, tensor
from tritonclient.utils import InferenceServerException


def scrape(server):
    """(name, labels) -> value."""
    response = ask(server.metrics_url, "GET", "/metrics")
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/plain")
    samples = {}
    for line in response.body.decode().splitlines():
        if line.startswith("#") or not line:
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        samples[name, tuple(sorted(pairs))] = float(value)
    return samples


def value(samples, name, **labels):
    return samples[name, tuple(sorted(labels.items()))]


AFFINE = {"model": "affine", "version": "1"}


def test_counters_are_exact_and_failures_are_no_successes(repository, start):
    repository.add("affine")
    server = start(repository.path)
    samples = scrape(server)
    assert value(samples, "nv_inference_request_success", **AFFINE) == 0
    assert value(samples, "tutti_model_ready", **AFFINE) == 1
    for _ in range(5):
        infer_affine(server.client)
    bad = tensor("x", np.zeros((2, 3), np.float32), "FP32")
    for _ in range(3):
        with pytest.raises(InferenceServerException):
            server.client.infer("affine", [bad])
    assert ask(server.http_url, "POST", "/v2/models/affine/infer", "{").status == 400
    samples = scrape(server)
    for name, expected in (
        ("nv_inference_request_success", 5),
        ("nv_inference_count", 5),
        ("nv_inference_exec_count", 5),
        ("nv_inference_pending_request_count", 0),
    ):
        assert value(samples, name, **AFFINE) == expected
    failure = "nv_inference_request_failure"
    assert value(samples, failure, reason="OTHER", **AFFINE) == 4
    for reason in ("REJECTED", "CANCELED", "BACKEND"):
        assert value(samples, failure, reason=reason, **AFFINE) == 0
    total = server.client.get_inference_statistics("affine").model_stats[0].inference_stats
    assert total.success.count == 5
    assert total.fail.count == 4
    durations = {
        "request": total.success,
        "queue": total.queue,
        "compute_input": total.compute_input,
        "compute_infer": total.compute_infer,
        "compute_output": total.compute_output,
    }
    for name, duration in durations.items():
        us = value(samples, f"nv_inference_{name}_duration_us", **AFFINE)
        assert us == pytest.approx(duration.ns / 1000)
    assert value(samples, "nv_model_load_duration_secs", **AFFINE) > 0


def test_the_machine(served):
    samples = scrape(served)
    assert 0 <= value(samples, "nv_cpu_utilization") <= 1
    used = value(samples, "nv_cpu_memory_used_bytes")
    assert 0 < used < value(samples, "nv_cpu_memory_total_bytes")


def test_ranks(served):
    x = np.zeros((1, 48, 48), np.float32)
    served.client.infer("attention_cp3", [tensor("x", x, "FP32")])
    samples = scrape(served)
    for rank in ("0", "1", "2"):
        labels = {"model": "attention_cp3", "version": "1", "instance": "0", "rank": rank}
        assert value(samples, "tutti_rank_memory_bytes", **labels) > 0
        assert value(samples, "tutti_rank_exchange_sent_bytes", **labels) > 0


def test_times_of_ranks(repository, start):
    repository.add("attention_cp3")
    repository.add("affine")
    server = start(repository.path)
    x = np.zeros((1, 48, 48), np.float32)
    for _ in range(3):
        server.client.infer("attention_cp3", [tensor("x", x, "FP32")])
    infer_affine(server.client)
    samples = scrape(server)
    instance = {"model": "attention_cp3", "version": "1", "instance": "0"}
    busy = []
    for rank in ("0", "1", "2"):
        run = value(samples, "tutti_rank_run_duration_us", rank=rank, **instance)
        exchange = value(samples, "tutti_rank_exchange_duration_us", rank=rank, **instance)
        assert 0 < exchange < run
        busy.append(run - exchange)
    # A rank's time is inside that of the requests.
    infer = "nv_inference_compute_infer_duration_us"
    total = value(samples, infer, model="attention_cp3", version="1")
    assert value(samples, "tutti_rank_run_duration_us", rank="0", **instance) <= total
    imbalance = value(samples, "tutti_instance_imbalance", **instance)
    assert imbalance == pytest.approx(1 - sum(busy) / 3 / max(busy), abs=1e-6)
    assert value(samples, "tutti_instance_rebuilds", **instance) == 0
    # One rank has nobody to differ from.
    alone = tuple(sorted({**AFFINE, "instance": "0"}.items()))
    assert ("tutti_instance_imbalance", alone) not in samples


def test_the_response_cache(repository, start):
    repository.add("affine", config=False)
    (repository.path / "affine" / "config.pbtxt").write_text("response_cache { enable: true }")
    repository.add("add_sub")
    server = start(repository.path, options=("--cache-config", "local,size=1000000"))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for i in range(5):
        infer_affine(server.client, x=x + (i == 4))
    samples = scrape(server)
    stats = server.client.get_inference_statistics("affine").model_stats[0]
    for name, expected, duration in (
        ("hit", 3, stats.inference_stats.cache_hit),
        ("miss", 2, stats.inference_stats.cache_miss),
    ):
        plural = {"hit": "hits", "miss": "misses"}[name]
        assert duration.count == expected
        assert value(samples, f"nv_cache_num_{plural}_per_model", **AFFINE) == expected
        us = value(samples, f"nv_cache_{name}_duration_per_model", **AFFINE)
        assert us == pytest.approx(duration.ns / 1000)
    assert stats.inference_stats.success.count == 5
    assert (stats.inference_count, stats.execution_count) == (2, 2)
    # Models without the cache have no such metrics.
    other = (("model", "add_sub"), ("version", "1"))
    assert ("nv_cache_num_hits_per_model", other) not in samples


def test_paths_of_the_metrics_port(served):
    assert ask(served.metrics_url, "GET", "/metrics/").status == 404
    assert ask(served.metrics_url, "GET", "/status").status == 404
    for path in ("/metrics", "/status.json", "/"):
        assert ask(served.metrics_url, "POST", path).status == 405
        assert ask(served.metrics_url, "GET", path).status == 200
    # Nothing else is there: restricted calls cannot be had here.
    assert ask(served.metrics_url, "GET", "/v2").status == 404


def test_front_ends_can_be_left_out(repository, start):
    repository.add("affine")
    options = ("--allow-http", "false", "--allow-metrics", "false")
    server = start(repository.path, options=options)
    assert server.http_url is None
    assert server.metrics_url is None
    infer_affine(server.client)


def test_metrics_are_for_this_machine_alone_by_default(repository, start):
    repository.add("affine")
    server = start(repository.path)
    assert server.metrics_url.startswith("127.0.0.1:")


def test_statistics_over_http_are_those_of_grpc(served):
    answer = ask(served.http_url, "GET", "/v2/models/affine/versions/1/stats").json()
    (over_http,) = answer["model_stats"]
    over_grpc = served.client.get_inference_statistics("affine", "1", as_json=True)["model_stats"][
        0
    ]
    assert over_http["name"] == "affine"
    assert over_http["inference_count"] == int(over_grpc.get("inference_count", 0))
    assert set(over_http["inference_stats"]) >= {"success", "fail", "queue", "compute_infer"}
    json.dumps(answer)
