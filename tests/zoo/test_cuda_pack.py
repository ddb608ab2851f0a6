"""A packed model through cuda_check.py, with CPU ranks in the place of a card."""

import json
import sys

import numpy as np
import pytest
from cuda_check import Checker
from cuda_pack import pack
from one_model import BINARY

from models import MODELS

ON_CPU = """#!{python}
import os, sys
os.execv("{binary}", ["cpu" if text == "cuda" else text for text in sys.argv])
"""


@pytest.mark.parametrize("name", ["TransformerTemporalModel", "AutoencoderDC"])
def test_a_packed_model_meets_its_bars(tmp_path, name, monkeypatch):
    monkeypatch.setattr("cuda_pack.LEAST_BYTES", 1000)
    program = tmp_path / "tutti"
    program.write_text(ON_CPU.format(python=sys.executable, binary=BINARY))
    program.chmod(0o755)
    assert pack(MODELS[name], tmp_path / "pack") > 10_000
    described = json.loads((tmp_path / "pack" / name / "model.json").read_text())
    assert sum(4 * int(np.prod(drawn["shape"])) for drawn in described["weights"]) > 10_000
    assert not list(tmp_path.rglob("weights.bin"))
    (row,) = Checker(tmp_path / "pack", [program], tmp_path / "out", 100).check(2, 1000)
    assert len(row["runs"]) >= 8
    assert {key: run["verdict"] for key, run in row["runs"].items() if run["verdict"] != "ok"} == {}
    one = next(run for key, run in row["runs"].items() if key.startswith("cuda bf16"))
    assert one["to_fp64"] > 1e-4  # it is bf16 that ran
    assert one["pytorch_to_fp64"] > 1e-4
