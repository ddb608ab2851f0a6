"""Every operator case of the `onnx` package; the report is build/reports/operators.json."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_operators_agree_with_onnx(tmp_path):
    report_file = ROOT / "build/reports/operators.json"
    binary = os.environ.get("TUTTI_BINARY", ROOT / "build/release/bin/tutti")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "tests/conformance/operators.py"]
        + ["--binary", binary, "--report", report_file],
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    report = json.loads(report_file.read_text())
    assert report["wrong"] == {}
    assert report["crashed"] == {}
    assert report["passed"] >= 0.95 * report["supported"]
    # Enough of the package ran for the share to mean something.
    assert report["supported"] >= 1000
    assert done.returncode == 0
