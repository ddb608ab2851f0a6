"""Kernels in plans: `tutti compile --cuda-arch` with the real NVRTC, which needs no GPU."""

import json
import struct

import numpy as np
import pytest
from sample_models import BINARY, ONNX, Tutti, relative_error, transformer_feeds

PLUGINS = BINARY.parents[1] / "lib"
EMULATED = BINARY.parents[1] / "cuda_emulator/backends"
PROFILE = ("--profile", "batch=1:1:2,frames=2:2:2,height=6:6:12,width=8:8:8,text_len=24:24:24")
SECTION = 7001  # field of the ONNX model: docs/plan.md
EM_CUDA = 190


def fields(data):
    """(number, value) of a message in protobuf's wire format; values of other types are skipped."""

    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value, at

    at = 0
    while at < len(data):
        tag, at = varint(at)
        if tag & 7 == 2:
            size, at = varint(at)
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            assert tag & 7 == 0, "only numbers and bytes are in what is read here"
            value, at = varint(at)
            yield tag >> 3, value


def cubins(plan):
    """(target, machine code) of each kernel in a plan file."""
    section = dict(fields(plan.read_bytes()))[SECTION]
    for number, artifact in fields(section):
        if number == 2:
            of = dict(fields(artifact))
            if of[2] == b"cubin":
                yield of[3].decode(), of[7]


def architecture(cubin):
    """The number behind sm_ in the flags of a CUDA ELF file; newer ones have it in other bits."""
    assert cubin[:4] == b"\x7fELF" and struct.unpack_from("<H", cubin, 18)[0] == EM_CUDA
    flags = struct.unpack_from("<I", cubin, 48)[0]
    is_new = cubin[8] >= 8  # version of the ABI
    return flags >> 8 & 0xFF if is_new else flags & 0xFF


@pytest.fixture
def compile_plan(tmp_path, monkeypatch):
    """compile_plan(*options): the plan of the transformer for these options."""
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "cache"))

    def run(*options, name="model", directory=PLUGINS):
        done = Tutti()(
            *("compile", ONNX / "transformer.onnx", "-o", tmp_path / name, *PROFILE, *options),
            *("--backend-directory", directory),
            check=False,
        )
        if "libnvrtc" in done.stderr and "is missing" in done.stderr:
            pytest.skip("no NVRTC: " + done.stderr.strip().splitlines()[-1])
        if "no plug-in" in done.stderr or "does not exist" in done.stderr:
            pytest.skip("built without CUDA's headers")
        assert done.returncode == 0, done.stderr
        return tmp_path / name / "1/model.plan"

    return run


def test_a_plan_holds_machine_code_for_each_architecture(compile_plan, tutti):
    plan = compile_plan("--cuda-arch", "sm_80,sm_90")
    found = list(cubins(plan))
    assert {target for target, _ in found} == {"sm_80", "sm_90"}
    for target, code in found:
        assert f"sm_{architecture(code)}" == target.removesuffix("a")  # sm_90a
    report = json.loads(tutti("inspect", "plan", plan, "--json").stdout)
    rows = {row["target"]: row for row in report["artifacts"]}
    for target, row in rows.items():
        codes = [code for of, code in found if of == target]
        assert (row["count"], row["bytes"]) == (len(codes), sum(map(len, codes)))
        assert row["made_by"].startswith("NVRTC 13.")
    assert f"{rows['sm_90']['count']} cubin for sm_90" in tutti("inspect", "plan", plan).stdout


def test_compiling_again_gives_the_same_file(compile_plan):
    first = compile_plan("--cuda-arch", "sm_90", name="a")
    again = compile_plan("--cuda-arch", "sm_90", name="b")
    assert first.read_bytes() == again.read_bytes()


def test_ranks_of_a_cpu_give_the_same_with_kernels_in_the_plan(compile_plan, tutti, tmp_path):
    feeds = transformer_feeds(batch=1, frames=2, height=6, width=8)
    plans = [
        compile_plan(*options, name=name)
        for name, options in {"with": ("--cuda-arch", "sm_90"), "without": ()}.items()
    ]
    answers = [
        tutti.run(plan, feeds, tmp_path / plan.parts[-3], "--backend", "cpu") for plan in plans
    ]
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_cannot_be_compiled_for_is_named(tutti, tmp_path, compile_plan):
    compile_plan("--cuda-arch", "sm_90")  # or skip
    done = tutti(
        "compile",
        ONNX / "transformer.onnx",
        "-o",
        tmp_path / "m",
        *PROFILE,
        "--cuda-arch",
        "sm_91",
        "--backend-directory",
        PLUGINS,
        check=False,
    )
    assert done.returncode == 1
    assert "--cuda-arch sm_91: cuda: 'sm_91' is no architecture, expected one of" in done.stderr
    done = tutti(
        "compile",
        ONNX / "transformer.onnx",
        "-o",
        tmp_path / "m",
        "--cuda-arch",
        "sm_90",
        "--backend-directory",
        PLUGINS,
        check=False,
    )
    assert done.returncode == 1
    assert "(give --profile NAME=MIN:OPT:MAX)" in done.stderr


emulated = pytest.mark.skipif(
    not (EMULATED / "libtutti_cuda.so").exists(), reason="built without CUDA's headers"
)


def cached(folder):
    return sorted(path.suffix for path in folder.rglob("*") if path.is_file())


@emulated
@pytest.mark.parametrize("mesh", [(), ("--mesh", "cp=2", "--strategy", "ulysses")])
def test_a_precompiled_plan_compiles_nothing_where_the_device_is(
    compile_plan, tutti, tmp_path, monkeypatch, mesh
):
    plan = compile_plan("--cuda-arch", "sm_90", *mesh, directory=EMULATED)
    feeds = transformer_feeds(batch=1, frames=2, height=6, width=8)
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "empty"))
    where = ("--backend", "cuda", "--backend-directory", EMULATED)
    on_device = tutti.run(plan, feeds, tmp_path / "cuda", *where)
    assert ".cubin" not in cached(tmp_path / "empty")
    on_cpu = tutti.run(plan, feeds, tmp_path / "cpu", "--backend", "cpu")
    assert max(relative_error(*pair) for pair in zip(on_device, on_cpu, strict=True)) < 1e-4


@emulated
def test_a_tuned_plan_measures_nothing_where_the_device_is(
    compile_plan, tutti, tmp_path, monkeypatch
):
    plan = compile_plan()
    where = ("--backend", "cuda", "--backend-directory", EMULATED)
    said = tutti("tune", plan, *where).stdout
    assert "cubin for sm_" in said and "product for Emulated device" in said
    measured = cached(tmp_path / "cache")
    assert ".cubin" in measured and ".product" in measured
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "empty"))
    feeds = transformer_feeds(batch=1, frames=2, height=6, width=8)
    tutti.run(plan, feeds, tmp_path / "cuda", *where)
    assert cached(tmp_path / "empty") == []


def test_tuning_says_that_it_needs_a_gpu(compile_plan, tutti):
    done = tutti("tune", compile_plan(), "--backend", "cpu", check=False)
    assert done.returncode == 1
    assert "the cpu backend measures nothing; run this where the GPU is" in done.stderr
