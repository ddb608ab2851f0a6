"""tests/zoo/cuda_check.py on a pack that is made up, with a `tutti` that answers what it is told: no GPU, no PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cuda_check
import cuda_report
import cuda_weights
import numpy as np
import pytest

SCRIPT = Path(cuda_check.__file__)

# Doubles its input; as the model's folder says, it fails on several ranks or is off by a factor in bf16.
TUTTI = """#!{python}
import json, sys
from pathlib import Path
import numpy as np
value = lambda name: sys.argv[sys.argv.index(name) + 1]
model = Path(sys.argv[2]).parent
faults = json.loads((model / "faults.json").read_text())
if value("--mesh") in faults.get("fails", []):
    sys.exit("[cuda] out of registers")
path = value("--input").split("=", 1)[1]
result = np.load(path) * 2
if "--precision" in sys.argv:
    result = result * np.float32(faults.get("bf16", 1))
np.save(Path(value("--output-dir")) / "0.npy", result)
"""


@pytest.fixture
def tutti(tmp_path):
    path = tmp_path / "tutti"
    path.write_text(TUTTI.format(python=sys.executable))
    path.chmod(0o755)
    return path


def pack(folder, name, **faults):
    """A model that doubles 1/3: 1/3 in bf16 is another number, so references tell which input a run had."""
    place = folder / "pack" / name
    place.mkdir(parents=True)
    x = np.full((2, 3), 1 / 3, np.float32)
    exact = cuda_check.as_bf16(x) * 2
    arrays = {"in.x": x, "out.0": x * 2, "float64.0": exact, "bfloat16.0": exact * np.float32(1.01)}
    for file, array in arrays.items():
        np.save(place / f"{file}.npy", array)
    (place / "faults.json").write_text(json.dumps(faults))
    described = {
        "name": name, "kind": "text", "inputs": ["x"], "outputs": ["y"], "options": ["--bind", "z={}/z.npy"],
        "meshes": ["cp=1", "cp=2"], "cases": 1, "missing": {},
    }  # fmt: skip
    (place / "model.json").write_text(json.dumps(described))


def check(tmp_path, tutti, *options):
    """The exit code, and rows by name."""
    report = tmp_path / "zoo_cuda.json"
    command = [sys.executable, SCRIPT, tmp_path / "pack", "--tutti", tutti, "--json", report]
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run([*command, *options], env=os.environ | {"PATH": path})
    return done.returncode, {r["name"]: r["runs"] for r in json.loads(report.read_text())}


def test_bf16_rounds_to_the_nearest_ties_to_even():
    step = np.float32(2**-7)  # of bf16 above one
    given = np.array(
        [1 + step / 2, 1 + 3 * step / 2, 1 + 0.51 * step, -1 - step, np.inf], np.float32
    )
    np.testing.assert_array_equal(
        cuda_check.as_bf16(given),
        np.array([1, 1 + 2 * step, 1 + step, -1 - step, np.inf], np.float32),
    )
    assert np.isnan(cuda_check.as_bf16(np.array([np.nan], np.float32)))[0]
    assert cuda_check.as_bf16(np.float32(3.0)).shape == ()
    assert cuda_check.as_bf16(np.array([257], np.int64)) == 257


def test_errors_are_relative_to_the_largest_element():
    want = np.array([0.5, -4], np.float32)
    assert cuda_check.relative_error(np.array([1, -4], np.float32), want) == 0.125
    assert cuda_check.rms_error(np.array([1, -4], np.float32), want) == pytest.approx(
        0.5 / np.sqrt(0.25 + 16)
    )
    for measure in (cuda_check.relative_error, cuda_check.rms_error):
        assert measure(np.array([np.nan, -4], np.float32), want) == float("inf")
        assert measure(want[:1], want) == float("inf")


@pytest.mark.parametrize("shape", [(3, 1 << 16), (5, 7, 64, 100), (70000,)])
def test_a_sample_visits_every_place_of_every_dimension(shape):
    places = np.stack(np.indices(shape), axis=-1).reshape(-1, len(shape))
    kept = cuda_check.sample(np.arange(len(places)).reshape(shape))
    assert 0.25 * cuda_check.SAMPLE < kept.size <= cuda_check.SAMPLE
    for dimension, size in enumerate(shape):
        if size <= kept.size:
            assert len(np.unique(places[kept, dimension])) == size
    small = np.ones((2, 3))
    assert cuda_check.sample(small) is small


def test_weights_are_drawn_to_the_same_bits_everywhere(tmp_path):
    drawn = cuda_weights.Drawn(seed=7, shape=(30, 50), mean=0.25, deviation=2.0)
    array = drawn.draw()
    assert array.shape == (30, 50) and array.dtype == np.float32
    assert array.mean() == pytest.approx(0.25, abs=0.1)
    assert array.std() == pytest.approx(2, rel=0.05)
    turned = cuda_weights.Drawn(7, (30, 50), 0.25, 2.0, is_transposed=True)
    np.testing.assert_array_equal(turned.draw(), array.T)
    assert cuda_weights.checksum([drawn]) == 1732941537  # of NumPy 2.4
    fields = vars(drawn) | {"shape": [30, 50]}
    told = {"weights": [fields, fields], "weights_crc32": cuda_weights.checksum([drawn, drawn])}
    cuda_weights.write_weights(tmp_path, told)
    written = np.fromfile(tmp_path / cuda_weights.FILE, np.float32)
    assert written.size % 16 == 0 and written.size == 2 * 1504
    np.testing.assert_array_equal(written[1504 : 1504 + 1500], array.ravel())
    with pytest.raises(ValueError, match="not those of the pack"):
        cuda_weights.write_weights(tmp_path, told | {"weights_crc32": 1})


def test_a_run_meets_its_bars_or_says_which_it_does_not():
    verdict = cuda_report.verdict

    def bf16(ours, theirs, ratio):
        errors = {"to_fp64": ours, "pytorch_to_fp64": theirs}
        return verdict("bf16", errors | {"rms_to_fp64": ratio, "pytorch_rms_to_fp64": 1.0})

    assert verdict("fp32", {"to_pytorch": 9e-5, "to_cpu": 1e-6}) == "ok"
    assert verdict("fp32", {"to_pytorch": 9e-5, "to_cpu": 2e-4}) == "to_cpu > 0.0001"
    assert verdict("fp32", {"to_pytorch": float("nan")}) == "to_pytorch > 0.0001"
    assert bf16(1.4e-2, 1e-2, 1.5) == "ok"
    assert bf16(1.4e-2, 1e-2, 1.6) == "ratio > 1.5"
    assert bf16(9e-4, 1e-4, 9) == "ok"  # too small for a ratio to say anything
    assert bf16(1.9e-2, 1e-2, 1.2) == "ok"  # the largest error of one input is not judged
    assert bf16(2.9e-2, 1.99e-2, 1.2) == "to_fp64 > 0.02"
    assert bf16(2.9e-2, 3e-2, 1.2) == cuda_report.PAST
    assert bf16(4.6e-2, 3e-2, 1.6) == "ratio > 1.5"
    assert verdict("bf16", {"to_fp64": 2.1e-2}) == "to_fp64 > 0.02"
    assert verdict("bf16", {"error": "CUDA error"}) == "failed"
    assert verdict("bf16", {"error": "not run"}) == "not run"


def test_a_model_runs_in_both_precisions_and_on_several_ranks(tmp_path, tutti):
    pack(tmp_path, "right")
    code, rows = check(tmp_path, tutti)
    assert code == 0
    assert list(rows["right"]) == [
        "cpu fp32 cp=1", "cuda fp32 cp=1", "cpu bf16 cp=1", "cuda bf16 cp=1", "cuda fp32 cp=2", "cuda bf16 cp=2",
    ]  # fmt: skip
    assert all(result["verdict"] == "ok" for result in rows["right"].values())
    bf16 = rows["right"]["cuda bf16 cp=1"]
    assert bf16["to_fp64"] == 0 and bf16["pytorch_to_fp64"] == pytest.approx(0.01, rel=1e-3)


def test_what_fails_is_told_and_the_others_go_on(tmp_path, tutti, capfd):
    pack(tmp_path, "fails", fails=["cp=2"])
    pack(tmp_path, "inexact", bf16=1.018)
    code, rows = check(tmp_path, tutti)
    assert code == 1
    assert rows["fails"]["cuda fp32 cp=2"]["verdict"] == "failed"
    assert "out of registers" in rows["fails"]["cuda fp32 cp=2"]["error"]
    assert rows["fails"]["cuda fp32 cp=1"]["verdict"] == "ok"
    assert rows["inexact"]["cuda bf16 cp=1"]["verdict"] == "ratio > 1.5"
    said = capfd.readouterr().out
    assert "fails cuda fp32 cp=2: failed" in said and "inexact cuda bf16 cp=1: ratio > 1.5" in said


def test_rows_of_other_models_stay(tmp_path, tutti):
    pack(tmp_path, "first")
    check(tmp_path, tutti)
    (tmp_path / "pack/first").rename(tmp_path / "kept")
    pack(tmp_path, "second")
    code, rows = check(tmp_path, tutti, "--seconds", "-1")
    assert list(rows) == ["first", "second"]
    assert rows["first"]["cuda fp32 cp=1"]["verdict"] == "ok"
    assert rows["second"]["cuda fp32 cp=1"]["verdict"] == "not run" and code == 1


def test_the_page_is_what_the_report_says():
    rows = json.loads(cuda_report.DOCUMENT.read_text())
    page = cuda_report.DOCUMENT.with_suffix(".md")
    assert page.read_text() == cuda_report.table(rows), "run tests/zoo/cuda_report.py"
