"""`tutti status`, the document behind it, and the status page in a browser."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from raw_http import ask
from serving import TUTTI, infer_affine, tensor
from tritonclient.utils import InferenceServerException

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)


def status(*options, url):
    return subprocess.run(
        [TUTTI, "status", "--url", url, *options], capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def busy(repository, start):
    """A server that has something to show: ranks, successes, a failure, a model that is broken."""
    repository.add("attention_cp3")
    repository.add("affine")
    (repository.path / "<img src=x onerror=document.title=1>" / "1").mkdir(parents=True)
    server = start(repository.path, options=("--exit-on-error", "false"))
    x = np.zeros((1, 48, 48), np.float32)
    for _ in range(4):
        server.client.infer("attention_cp3", [tensor("x", x, "FP32")])
    for _ in range(7):
        infer_affine(server.client)
    with pytest.raises(InferenceServerException):
        server.client.infer("affine", [tensor("x", np.zeros((2, 3), np.float32), "FP32")])
    return server


def test_the_document_has_what_the_statistics_say(busy):
    answer = ask(busy.metrics_url, "GET", "/status.json")
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert document["server"]["name"] == "tutti"
    assert document["server"]["uptime_seconds"] > 0
    assert 0 <= document["machine"]["cpu_utilization"] <= 1
    models = {model["name"]: model for model in document["models"]}
    affine = models["affine"]
    stats = busy.client.get_inference_statistics("affine").model_stats[0]
    assert (affine["state"], affine["ready"], affine["pending"]) == ("READY", True, 0)
    assert (affine["success"], affine["fail"]) == (7, 1)
    assert affine["failures"] == {"REJECTED": 0, "CANCELED": 0, "BACKEND": 0, "OTHER": 1}
    assert affine["inference_count"] == stats.inference_count
    success_us = stats.inference_stats.success.ns / 1000
    assert affine["duration_us"]["request"] == pytest.approx(success_us)
    latency = affine["latency"]
    assert sum(count for _, count in latency["buckets"]) == 7
    assert 0 < latency["p50_us"] <= latency["p90_us"] <= latency["p99_us"]
    # Buckets are within a fifth: so is what they add up to.
    upper = sum(bound * count for bound, count in latency["buckets"])
    assert success_us * 0.99 <= upper <= success_us * 1.2 + 7
    assert "cache" not in affine
    (instance,) = models["attention_cp3"]["instances"]
    assert len(instance["ranks"]) == 3
    assert 0 <= instance["imbalance"] <= 1
    for rank in instance["ranks"]:
        assert rank["memory_bytes"] > 0
        assert rank["sent_bytes"] > 0
        assert 0 < rank["exchange_us"] < rank["run_us"]
    (broken,) = (model for name, model in models.items() if name.startswith("<img"))
    assert broken["state"] == "UNAVAILABLE"
    assert "model.plan" in broken["reason"]
    assert "instances" not in broken


def test_status_as_json_is_that_document(busy):
    done = status("--json", url=busy.metrics_url)
    assert done.returncode == 0
    names = {model["name"] for model in json.loads(done.stdout)["models"]}
    assert {"affine", "attention_cp3"} <= names


def test_status_for_people(busy):
    done = status("--once", "--interval-secs", "0.2", url=f"http://{busy.metrics_url}/")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout, "no colours where nobody looks"
    lines = done.stdout.splitlines()
    assert lines[0].startswith("tutti ")
    affine = next(line for line in lines if line.startswith("affine"))
    assert re.fullmatch(r"affine +1 +READY +0 +0\.00 +- +- +7 +1", affine)
    ranks = [line for line in lines if re.match(r" +rank \d", line)]
    assert len(ranks) == 4
    assert any("UNAVAILABLE" in line for line in lines)


def test_status_without_a_server():
    done = status("--json", url="127.0.0.1:1")
    assert done.returncode == 1
    assert "nobody answers at '127.0.0.1:1'" in done.stderr
    done = status("--json", url="nowhere")
    assert done.returncode == 1
    assert "'nowhere' is no HOST:PORT" in done.stderr


def test_status_at_another_port_says_so(busy):
    done = status("--json", url=busy.http_url)
    assert done.returncode == 1
    assert "is it the metrics port?" in done.stderr
    done = status("--json", url=busy.url)
    assert done.returncode == 1


def test_the_page_needs_nothing_from_elsewhere(served):
    answer = ask(served.metrics_url, "GET", "/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = answer.body.decode()
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    links = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')\s>]+)""", page)
    assert set(links) <= {"/metrics", "/status.json", "data:,"}
    assert "innerHTML" not in page, "what models are called is no markup"


def browse(url, *options, folder):
    return subprocess.run(
        [
            CHROMIUM,
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={folder}", "--window-size=1180,900", "--virtual-time-budget=4000"),
            *options,
            f"http://{url}/",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: scripts/setup says how to get it")
def test_the_page_in_a_browser(busy, tmp_path):
    done = browse(busy.metrics_url, "--dump-dom", folder=tmp_path / "profile")
    dom = done.stdout
    assert "<title>Tutti: 2 of 3 models ready</title>" in dom, dom[:2000] + done.stderr
    body = dom.split("<script>")[0]
    assert ">affine</h2>" in body
    assert "version 1" in body
    # One broken model: shown as text, and its reason with it.
    assert "&lt;img src=x onerror=document.title=1&gt;</h2>" in body
    assert "model.plan" in body
    assert [body.count(f">rank {r}<") for r in range(3)] == [2, 1, 1]
    assert re.search(r'Served</div><div class="value number"><span[^>]*>7<', body)
    assert re.search(r'Failed</div><div class="value number"><span class="bad">1<', body)
    assert 'class="lost"' not in body


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: scripts/setup says how to get it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_looked_at(busy, tmp_path, scheme):
    picture = tmp_path / f"{scheme}.png"
    options = [f"--screenshot={picture}"]
    if scheme == "dark":
        options.append("--blink-settings=preferredColorScheme=0")
    browse(busy.metrics_url, *options, folder=tmp_path / "profile")
    from PIL import Image

    image = Image.open(picture).convert("L")
    assert image.size == (1180, 900)
    # The page's own ground, and something on it.
    corner = image.getpixel((4, 890))
    assert corner > 200 if scheme == "light" else corner < 60
    assert image.getextrema()[1] - image.getextrema()[0] > 120
