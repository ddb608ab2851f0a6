"""The sample models through the CUDA plug-in on emulated devices (tests/cuda_emulator), against CPU ranks."""

import numpy as np
import pytest
from sample_models import BINARY, CHANNELS, ONNX, Tutti, relative_error, transformer_feeds

PLUGIN = BINARY.parents[1] / "cuda_emulator/backends"
pytestmark = pytest.mark.skipif(
    not (PLUGIN / "libtutti_cuda.so").exists(), reason="built without CUDA's headers"
)


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """compare(model, feeds, *options): how far the device's answers are from the CPU's."""
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "cache"))

    def run(model, feeds, *options):
        on_cpu = Tutti().run(ONNX / model, feeds, tmp_path / "cpu", "--backend", "cpu", *options)
        where = ("--backend", "cuda", "--backend-directory", PLUGIN)
        on_cuda = Tutti().run(ONNX / model, feeds, tmp_path / "cuda", *where, *options)
        return max(relative_error(*pair) for pair in zip(on_cuda, on_cpu, strict=True))

    return run


def test_the_plugin_says_that_its_device_is_emulated(tutti):
    said = tutti("inspect", "backends", "--backend-directory", PLUGIN).stdout
    assert "Emulated device" in said


@pytest.mark.parametrize("mesh", ["cp=1", "cp=2", "cfg=2,cp=2"])
def test_the_transformer_gives_what_it_gives_on_cpu_ranks(compare, mesh):
    feeds = transformer_feeds(batch=2, frames=2, height=6, width=8)
    strategy = "cfg=cfg,cp=ulysses" if "cfg" in mesh else "ulysses"
    options = ("--mesh", mesh, "--strategy", strategy)
    assert compare("transformer.onnx", feeds, *options) < 1e-4


def test_the_decoder_split_in_space_gives_what_it_gives_on_cpu_ranks(compare):
    latents = np.random.default_rng(1).standard_normal((1, CHANNELS, 2, 4, 4), np.float32)
    options = ("--mesh", "sp=2", "--strategy", "spatial")
    assert compare("vae_decoder.onnx", {"latents": latents}, *options) < 1e-4


def test_the_text_encoder_gives_what_it_gives_on_cpu_ranks(compare):
    ids = np.arange(12, dtype=np.int64).reshape(1, 12)
    assert compare("text_encoder.onnx", {"input_ids": ids}) < 1e-4
