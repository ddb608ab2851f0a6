"""Whole clips through the server: the frames of N ranks equal those of one."""

import subprocess
import time

import pytest
from sample_models import BINARY, ONNX
from tutti.clips.pipeline import ClipsPipeline
from tutti.clips.report import psnr_db
from tutti.clips.transformers import TritonTransformer

RANKS = (1, 2, 3, 4, 8)
STEPS = 4
PROMPT = "a blue square moving left over a plain background"


@pytest.fixture(scope="module")
def url(tutti, tmp_path_factory):
    """A server with the transformer compiled for each number of ranks."""
    folder = tmp_path_factory.mktemp("clips")
    for ranks in RANKS:
        model = folder / "models" / f"clips_cp{ranks}"
        tutti("compile", ONNX / "transformer.onnx", "--output", model, "--mesh", f"cp={ranks}")
    port_file = folder / "port"
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            [BINARY, "serve", "--model-repository", folder / "models", "--grpc-port", "0"]
            + ["--allow-http", "false", "--allow-metrics", "false", "--port-file", port_file],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + 120
    while not port_file.exists():
        assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    yield f"127.0.0.1:{port_file.read_text().strip()}"
    server.terminate()
    assert server.wait(60) == 0


@pytest.fixture(scope="module")
def clips(url):
    """A clip a number of ranks, all of one seed and prompt."""
    made = {}
    for ranks in RANKS:
        transformer = TritonTransformer(url, f"clips_cp{ranks}")
        assert transformer.ranks == ranks
        made[ranks] = ClipsPipeline(transformer)(PROMPT, num_inference_steps=STEPS, seed=5)
        transformer.close()
    return made


@pytest.mark.parametrize("ranks", RANKS[1:])
def test_frames_equal_those_of_one_rank(clips, ranks):
    assert psnr_db(clips[ranks].clip, clips[1].clip) >= 60


def test_frames_move(clips):
    frames = clips[1].frames.astype(int)
    assert frames.shape == (25, 64, 64, 3)
    assert abs(frames[0] - frames[-1]).max() > 100
