"""Command lines that people have for tritonserver, and what is wrong with those that do not work."""

import json
import subprocess

import pytest
import tritonclient.http as http
from raw_http import ask
from serving import TUTTI, infer_affine
from test_metrics import AFFINE, scrape, value

# `tritonserver --help` of release 2.60, but for flags that have a test or a meaning of their own elsewhere.
WITHOUT_EFFECT = [
    "--backend-config=default-max-batch-size=4",
    "--backend-config=tensorflow,version=2",
    "--disable-auto-complete-config=true",
    "--strict-model-config=false",
    "--grpc-header-forward-pattern=x-.*",
    "--grpc-infer-thread-count=4",
    "--grpc-infer-allocation-pool-size=16",
    "--grpc-max-response-pool-size=16",
    "--model-load-retry-count=2",
    "--enable-peer-access=true",
    "--pinned-memory-pool-byte-size=268435456",
    "--cuda-memory-pool-byte-size=0:67108864",
    "--cuda-memory-pool-byte-size=1:67108864",
    "--cuda-virtual-address-size=0:1024",
    "--min-supported-compute-capability=7.5",
    "--buffer-manager-thread-count=4",
    "--host-policy=gpu_0,numa-node=0",
    "--model-load-gpu-limit=0:0.9",
    "--cache-directory=/opt/tritonserver/caches",
    "--repoagent-directory=/opt/tritonserver/repoagents",
    "--sagemaker-port=8080",
    "--sagemaker-safe-port-range=8000-9000",
    "--sagemaker-thread-count=8",
    "--vertex-ai-port=8080",
    "--vertex-ai-thread-count=8",
    "--vertex-ai-default-model=affine",
]
SWITCHED_OFF = ["--allow-sagemaker=false", "--allow-vertex-ai=false", "--model-namespacing=false"]


def refused(*arguments):
    done = subprocess.run([TUTTI, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_flags_without_a_meaning_here_are_taken_with_a_warning(repository, start):
    repository.add("affine")
    server = start(repository.path, options=(*WITHOUT_EFFECT, *SWITCHED_OFF))
    infer_affine(server.client)
    log = server.log.read_text()
    for flag in WITHOUT_EFFECT:
        assert f"{flag.split('=')[0]} has no effect: " in log
    assert "--allow-sagemaker" not in log


@pytest.mark.parametrize("flag", [flag.split("=")[0] for flag in SWITCHED_OFF])
def test_what_is_not_there_cannot_be_switched_on(flag):
    assert f"{flag}: " in refused("serve", "--model-repository", "x", f"{flag}=true")


def test_flags_of_older_releases_stand_for_those_that_followed(repository, start, tmp_path):
    folder = repository.add("affine")
    with open(folder / "config.pbtxt", "a") as config:
        config.write("\nresponse_cache { enable: true }\n")
    trace = tmp_path / "trace.json"
    options = ["--response-cache-byte-size=1000000", f"--trace-file={trace}", "--trace-rate=1"]
    options += ["--trace-level=TIMESTAMPS", "--trace-count=5", "--trace-log-frequency=0"]
    server = start(repository.path, options=options)
    for _ in range(2):
        infer_affine(server.client)
    assert value(scrape(server), "nv_cache_num_hits_per_model", **AFFINE) == 1
    settings = ask(server.http_url, "GET", "/v2/trace/setting").json()
    assert settings["trace_level"] == ["TIMESTAMPS"]
    assert settings["trace_file"] == str(trace)
    assert server.stop() == 0
    assert {entry["id"] for entry in json.loads(trace.read_text())} == {1, 2}


def test_the_servers_name_is_its_id(plans, start):
    server = start(plans, options=("--id=front",))
    client = http.InferenceServerClient(server.http_url)
    assert client.get_server_metadata()["name"] == "front"
    assert server.client.get_server_metadata().name == "front"


def test_a_config_of_another_name_goes_before_config_pbtxt(repository, start):
    for name in ("affine", "other"):
        repository.add("affine", name)
    (repository.path / "affine/configs").mkdir()
    (repository.path / "affine/configs/large.pbtxt").write_text("max_batch_size: 64")
    server = start(repository.path, options=("--model-config-name=large",))
    assert server.client.get_model_config("affine").config.max_batch_size == 64
    assert server.client.get_model_config("other").config.max_batch_size == 0


def test_quantiles_histograms_and_tags_under_tritons_names(repository, start):
    folder = repository.add("affine")
    with open(folder / "config.pbtxt", "a") as config:
        config.write("""
metric_tags { key: "team" value: "video" }
model_metrics { metric_control {
  metric_identifier { family: "nv_inference_first_response_histogram_ms" }
  histogram_options { buckets: [ 60000, 70000 ] } } }
""")
    options = ["--metrics-config", "summary_latencies=true", "--metrics-config"]
    options += ["histogram_latencies=true", "--metrics-config=summary_quantiles=0.5:0.05,0.99:0.01"]
    options += ["--metrics-config=counter_latencies=false", "--allow-cpu-metrics=false"]
    server = start(repository.path, options=options)
    for _ in range(7):
        infer_affine(server.client)
    samples = scrape(server)
    tagged = {**AFFINE, "_team": "video"}
    assert value(samples, "nv_inference_request_success", **tagged) == 7
    total = server.client.get_inference_statistics("affine").model_stats[0].inference_stats
    parts = {"request": total.success, "queue": total.queue, "compute_infer": total.compute_infer}
    parts |= {"compute_input": total.compute_input, "compute_output": total.compute_output}
    for name, part in parts.items():
        summary = f"nv_inference_{name}_summary_us"
        assert value(samples, f"{summary}_count", **tagged) == 7
        assert value(samples, f"{summary}_sum", **tagged) == pytest.approx(part.ns / 1000)
        middle, high = (value(samples, summary, quantile=q, **tagged) for q in ("0.5", "0.99"))
        assert 0 <= middle <= high <= part.ns / 1000
    histogram = "nv_inference_first_response_histogram_ms"
    for bound in ("60000", "70000", "+Inf"):
        assert value(samples, f"{histogram}_bucket", le=bound, **tagged) == 7
    names = {name for name, _ in samples}
    assert not [name for name in names if name.endswith("_duration_us") and "nv_" in name]
    assert not [name for name in names if name.startswith("nv_cpu")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["serve", "--model-repo", "x"], "'--model-repo' is not known; did you mean '--model-repository'?"),
        (["serve", "--model-repository", "x", "--http-prot=1"], "did you mean '--http-port'?"),
        (["serve", "--model-repository", "x", "--xyzzy"], "tutti serve: '--xyzzy' is not known\n"),
        (["serve"], "tutti serve: --model-repository is required"),
        (["serv"], "tutti: 'serv' is no command, expected one of compile, serve"),
        ([], "tutti: a command is missing, expected one of compile, serve"),
        (["inspect", "plans"], "tutti inspect: 'plans' is no command, expected one of plan"),
        (
            ["serve", "--model-repository", "x", "--model-control-mode=manual"],
            "--model-control-mode: 'manual', expected one of explicit, none (the default), poll",
        ),
        (
            ["serve", "--model-repository", "x", "--metrics-config", "quantiles=1"],
            "--metrics-config: 'quantiles=1' is no setting",
        ),
    ],
)  # fmt: skip
def test_what_is_mistyped_is_named(arguments, expected):
    assert expected in refused(*arguments)


@pytest.mark.parametrize(
    ("repository_of", "expected"),
    [
        (lambda path: path / "affine", "has a config.pbtxt and is one model's"),
        (lambda path: "s3://bucket/models", "'s3://bucket/models' is remote"),
    ],
)
def test_what_is_no_repository_is_named(repository, repository_of, expected):
    repository.add("affine")
    command = [TUTTI, "serve", "--model-repository", repository_of(repository.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, expected in done.stderr) == (1, True), done.stderr


def test_an_onnx_model_without_a_plan_is_told_the_way(repository, onnx_files, tmp_path):
    version = repository.path / "affine" / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").write_bytes(onnx_files["affine"].read_bytes())
    command = [TUTTI, "serve", "--model-repository", repository.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    told = done.stderr.split("is missing; `")[1].split("`")[0].split()
    assert told[:2] == ["tutti", "compile"]
    subprocess.run([TUTTI, *told[1:]], check=True, capture_output=True)
    assert (version / "model.plan").exists()
