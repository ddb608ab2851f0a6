"""Load generators that people use with Triton, as they come from the package index, drive the server.

scripts/setup-tools installs them. Each run sends a fixed number of requests; what the program recorded of every answer is
compared with the right values, and the model's statistics with the number of requests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import compatibility
import numpy as np
import pytest
import tiny_models
from serving import ROOT, Server, assert_well, compile_model

TOOLS = Path(os.environ.get("TUTTI_TOOLS", ROOT / ".venv-tools")) / "bin"
PERF_ANALYZER = TOOLS / "perf_analyzer"
AIPERF = TOOLS / "aiperf"
GENAI_PERF = TOOLS / "genai-perf"
REQUESTS = 60
SHARED = "--shared-memory=system"
# What perf_analyzer is asked to do, without what every run has.
RUNS = [
    "-i grpc",
    "-i http",
    "-i grpc --async --concurrency-range 4",
    "-i http --async --concurrency-range 4",
    "-i grpc --streaming",
    "-i grpc --streaming --concurrency-range 4",
    f"-i grpc {SHARED}",
    f"-i http {SHARED}",
    f"-i grpc --streaming {SHARED}",
    f"-i http --async --concurrency-range 4 {SHARED}",
    "-i http --input-tensor-format json --output-tensor-format json",
    "-i grpc --grpc-compression-algorithm gzip",
    "-i grpc --request-rate-range 50",
    "-i http --request-rate-range 50",
]
rows = []


def needs(program, how):
    return pytest.mark.skipif(not program.exists(), reason=f"{program} is not there: {how}")


needs_perf_analyzer = needs(PERF_ANALYZER, "scripts/setup-tools installs it")
needs_genai_perf = needs(
    GENAI_PERF, "scripts/setup-tools --generative installs it (more than 1 GB)"
)
needs_aiperf = needs(AIPERF, "scripts/setup-tools --generative installs it (more than 1 GB)")


@pytest.fixture(scope="module")
def sharing(plans, tmp_path_factory):
    log = tmp_path_factory.mktemp("tools") / "serve.log"
    server = Server(plans, options=("--allow-client-shm", "true"), log=log)
    yield server
    assert server.stop() == 0, log.read_text()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two requests in perf_analyzer's format, and the same with right answers, which it compares itself."""
    given, right = [], []
    for step in (1, 5):
        a, b = np.arange(16), np.arange(16) * step + 3
        tensors = {"INPUT0": a, "INPUT1": b, "OUTPUT0": a + b, "OUTPUT1": a - b}
        as_json = {
            name: {"content": values.tolist(), "shape": [1, 16]} for name, values in tensors.items()
        }
        given.append({name: as_json[name] for name in ("INPUT0", "INPUT1")})
        right.append({name: as_json[name] for name in ("OUTPUT0", "OUTPUT1")})
    folder = tmp_path_factory.mktemp("data")
    (folder / "given.json").write_text(json.dumps({"data": given}))
    (folder / "checked.json").write_text(json.dumps({"data": given, "validation_data": right}))
    return folder


def counts(client, model):
    statistics = client.get_inference_statistics(model).model_stats[0].inference_stats
    return statistics.success.count, statistics.fail.count


def perf_analyzer(server, run, data, export):
    """Its output; `export` gets what it recorded of each request."""
    url = server.http_url if "-i http" in run else server.url
    command = [PERF_ANALYZER, "-m", "add_sub", "-u", url, *run.split()]
    command += ["--request-count", str(REQUESTS), "--profile-export-file", export]
    command += ["--input-data", data]
    if SHARED in run:
        command += ["--output-shared-memory-size", "256"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_perf_analyzer
@pytest.mark.parametrize("run", RUNS)
def test_perf_analyzer(sharing, data, tmp_path, run):
    before = counts(sharing.client, "add_sub")
    # It compares nothing that is in shared memory.
    file = data / ("given.json" if SHARED in run else "checked.json")
    output = perf_analyzer(sharing, run, file, tmp_path / "profile.json")
    after = counts(sharing.client, "add_sub")
    assert "Failed" not in output and "Unable" not in output and "rror" not in output, output
    requests = json.loads((tmp_path / "profile.json").read_text())["experiments"][0]["requests"]
    assert len(requests) >= REQUESTS
    for request in requests:
        assert len(request["response_timestamps"]) == 1
        if SHARED in run:
            continue  # outputs stay in the memory, unseen
        given, (answer,) = request["request_inputs"], request["response_outputs"]
        a, b = np.array(given["INPUT0"]), np.array(given["INPUT1"])
        np.testing.assert_array_equal(answer["OUTPUT0"], a + b)
        np.testing.assert_array_equal(answer["OUTPUT1"], a - b)
    assert after[0] - before[0] >= len(requests)
    assert after[1] == before[1]
    assert_well(sharing.client)
    rows.append(compatibility.row("perf_analyzer", run))


@needs_perf_analyzer
def test_perf_analyzer_sees_a_wrong_answer(sharing, data, tmp_path):
    wrong = json.loads((data / "checked.json").read_text())
    wrong["validation_data"][1]["OUTPUT1"]["content"][3] += 1
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    with pytest.raises(AssertionError, match="Output doesn't match expected output"):
        perf_analyzer(sharing, "-i grpc", tmp_path / "wrong.json", tmp_path / "profile.json")


# Written in the environment of aiperf or genai-perf, which has what this needs; a tokenizer must not come from the network.
MAKE_TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
vocabulary["</s>"] = len(vocabulary)
tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(sys.argv[1])
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    program = AIPERF if AIPERF.exists() else GENAI_PERF
    python = program.resolve().parent / "python"
    subprocess.run([python, "-c", MAKE_TOKENIZER, folder], check=True, capture_output=True)
    return folder


@needs_aiperf
def test_aiperf(sharing, tokenizer, tmp_path):
    template = tmp_path / "template"
    template.write_text('{"x": [1.0, 2.0, 3.0, {{ texts|length }}]}')
    aiperf_rows = []
    for call, options in (("generate", ()), ("generate_stream", ("--streaming",))):
        before = counts(sharing.client, "affine")
        command = [AIPERF, "profile", "-m", "affine", "--url", f"http://{sharing.http_url}"]
        command += ["--endpoint-type", "template", "--endpoint", f"/v2/models/affine/{call}"]
        command += ["--extra-inputs", f"payload_template:{template}", *options]
        command += ["--extra-inputs", "response_field:y", "--tokenizer", tokenizer, "--isl", "20"]
        command += ["--request-count", str(REQUESTS), "--concurrency", "4", "--ui-type", "none"]
        command += ["--output-artifact-dir", tmp_path / call]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads((tmp_path / call / "profile_export_aiperf.json").read_text())
        assert report["request_count"]["avg"] == REQUESTS
        assert not report.get("error_summary"), report["error_summary"]
        after = counts(sharing.client, "affine")
        assert (after[0] - before[0], after[1] - before[1]) == (REQUESTS, 0)
        arguments = f"--endpoint-type template --endpoint /v2/models/M/{call}"
        aiperf_rows.append(compatibility.row("aiperf", " ".join((arguments, *options))))
    assert_well(sharing.client)
    compatibility.check(aiperf_rows)


# A message of the protocol, framed as perf_analyzer reads them from the command that makes them.
WRITE_MESSAGES = """
import sys
import numpy as np
from tritonclient.grpc import service_pb2

for step in range(int(sys.argv[1])):
    request = service_pb2.ModelInferRequest(model_name="affine", id=str(step))
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    request.raw_input_contents.append(np.full((1, 4), step, np.float32).tobytes())
    message = request.SerializeToString()
    sys.stdout.buffer.write(len(message).to_bytes(4, sys.byteorder) + message)
"""
STREAM_MESSAGES = 5
TEXT_NOTE = "its types for texts (chat, completions, generate, kserve) need BYTES in and out, which no plan has"


def genai_perf(folder, tokenizer, model, options):
    """Its report. What it needs a text for (`chat`, `generate`, `kserve`) is for models of BYTES, which no plan is."""
    command = [GENAI_PERF, "profile", "-m", model, *options, "--tokenizer", tokenizer]
    command += ["--request-count", str(REQUESTS), "--concurrency", "4", "--artifact-dir", folder]
    environment = os.environ | {"PATH": f"{TOOLS}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = folder.glob("*/profile_export_genai_perf.json")
    return json.loads(report.read_text())


@needs_genai_perf
@needs_perf_analyzer
def test_genai_perf(start, plans, tokenizer, tmp_path):
    """Streams over gRPC, and an embedding model over HTTP: its type for what answers numbers."""
    for folder in ("models", "stream", "http"):
        (tmp_path / folder).mkdir()
    (tmp_path / "models/affine").symlink_to(plans / "affine")
    compile_model(tiny_models.embedding(tmp_path / "embed.onnx"), tmp_path / "models/embed")
    server = start(tmp_path / "models")

    (tmp_path / "messages.py").write_text(WRITE_MESSAGES)
    maker = f"{sys.executable} {tmp_path / 'messages.py'} {STREAM_MESSAGES}"
    (tmp_path / "messages.jsonl").write_text(json.dumps({"text": maker}))
    method = "--endpoint-type dynamic_grpc --grpc-method inference.GRPCInferenceService/"
    method += "ModelStreamInfer"
    options = [*method.split(), "--input-file", tmp_path / "messages.jsonl", "-u", server.url]
    report = genai_perf(tmp_path / "stream", tokenizer, "affine", options)
    assert report["request_count"]["avg"] == REQUESTS
    success, fail = counts(server.client, "affine")
    assert (success >= REQUESTS * STREAM_MESSAGES, fail) == (True, 0)

    endpoint = "--endpoint-type embeddings --endpoint v2/models/{}/generate"
    options = [*endpoint.format("embed").split(), "-u", server.http_url]
    options += ["--extra-inputs", '{"input": [[1, 2, 3, 4]]}', "--num-dataset-entries", "3"]
    options += ["--server-metrics-url", f"http://{server.metrics_url}/metrics"]
    report = genai_perf(tmp_path / "http", tokenizer, "embed", options)
    assert report["request_count"]["avg"] == REQUESTS
    success, fail = counts(server.client, "embed")
    assert (success >= REQUESTS, fail) == (True, 0)
    assert_well(server.client)
    compatibility.check(
        [
            compatibility.row("genai-perf", method),
            compatibility.row("genai-perf", endpoint.format("M"), note=TEXT_NOTE),
        ]
    )


@needs_perf_analyzer
def test_the_page_says_what_the_run_saw():
    """Last: after the others have filled the table."""
    if len(rows) < len(RUNS):
        pytest.skip("not all runs were made")
    compatibility.check(rows)
