"""bench/scaling.py on a machine that is made up: two cards, a `tutti` that says how long it took, no PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from measurements.records import FORWARD

SCRIPT = Path(__file__).resolve().parents[2] / "bench/scaling.py"

TUTTI = """#!{python}
import json, os, sys
mesh = sys.argv[sys.argv.index("--mesh") + 1] if "--mesh" in sys.argv else "cp=1"
ranks = int(mesh.split("=")[1])
slow = 2 if os.environ.get("TUTTI_CUDA_EXCHANGE") == "nccl" else 1
slow *= 1.5 if os.environ.get("TUTTI_CUDA_PIPELINE") == "off" else 1
seconds = 3.0 / ranks * slow
print(json.dumps({{
    "backend": "2 x a card", "ranks": ranks, "median_s": seconds, "min_s": seconds, "max_s": seconds,
    "classes": [[{{"class": "attention", "seconds": 2.0 / ranks}}]], "idle_s": [0.5],
    "exchange": [{{"seconds": 0.2, "bytes_per_second": 1e11}}], "kernels": [],
}}))
"""


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    cards = 'case "$*" in -L) for i in 0 1; do echo "GPU $i: Card X (UUID: GPU-$i)"; done;; *) echo 1.2.3;; esac'
    program(tmp_path / "nvidia-smi", f"#!/bin/sh\n{cards}\n")
    program(tmp_path / "tutti", TUTTI.format(python=sys.executable))
    return tmp_path


def run(machine, *options):
    command = [sys.executable, SCRIPT, "--work", machine / "work", "--report", machine / "report.json",
               "--tutti", machine / "tutti", *options]  # fmt: skip
    path = f"{machine}:{os.environ['PATH']}"
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": path})


def test_records_of_every_rank_count_that_has_cards(machine):
    tiny = ["--layers", "0", "--ranks", "1", "2", "4", "--steps", "forwards", "apart", "exchanges"]
    done = run(machine, *tiny)
    assert done.returncode == 0, done.stderr
    report = json.loads((machine / "report.json").read_text())
    told = [(r["name"], r["ranks"], r["ours_s"]) for r in report["records"]]
    assert told[:4] == [
        (FORWARD, 1, 3.0),
        (FORWARD, 2, 1.5),
        (f"{FORWARD}, exchanges apart", 2, 2.25),
        (f"{FORWARD}, exchanges by NCCL", 2, 3.0),
    ]
    # No layers, so no exchanges: what two ranks compute in 1.5 s, shared out.
    label = f"PREDICTION, not measured: {FORWARD}"
    assert told[4:] == [(label, 4, 0.75), (label, 8, 0.375)]
    first = report["records"][0]
    assert first["card"] == "Card X" and first["versions"]["driver"] == "1.2.3"
    assert first["breakdown_s"] == {"attention": 2.0, "idle": 0.5}
    # No PyTorch here: said, and passed over.
    assert {f["step"] for f in report["failures"]} >= {"PyTorch, 1 ranks", "PyTorch, 2 ranks"}


def test_ranks_that_share_a_card_say_what_one_rank_computes(machine):
    program(
        machine / "nvidia-smi",
        '#!/bin/sh\ncase "$*" in -L) echo "GPU 0: Card X (UUID: GPU-0)";; *) echo 1;; esac\n',
    )
    tiny = ["--layers", "0", "--ranks", "1", "2", "--share-cards", "--steps", "forwards", "apart"]
    run(machine, *tiny)
    told = json.loads((machine / "report.json").read_text())["records"]
    assert [(r["name"], r["ranks"], r["cards"], r["ours_s"]) for r in told[:3]] == [
        (FORWARD, 1, 1, 3.0),
        (FORWARD, 2, 1, 1.5),
        (f"{FORWARD}, exchanges apart", 2, 1, 2.25),
    ]
    # One rank computes for 2.5 s, idle time included.
    assert [(r["ranks"], r["ours_s"]) for r in told[3:]] == [(2, 1.25), (4, 0.625), (8, 0.3125)]


def test_without_a_gpu_nothing_is_measured(machine):
    program(machine / "nvidia-smi", "#!/bin/sh\nexit 9\n")
    done = run(machine)
    assert done.returncode == 0
    assert "no GPU here" in done.stdout
    assert not (machine / "report.json").exists()


def test_steps_that_find_no_time_left_are_named(machine):
    run(machine, "--layers", "0", "--steps", "forwards", "--seconds", "1")
    report = json.loads((machine / "report.json").read_text())
    assert report["records"] == []
    assert report["failures"][0] == {"step": "Tutti, 1 ranks", "why": "no time left"}
