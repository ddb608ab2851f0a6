"""What the run of all models makes of rows that it did not measure."""

import json

import run

from models import MODELS


def test_rows_whose_exports_are_not_here_stay_as_they_are(tmp_path, monkeypatch):
    def measure(tiny, row):
        raise AssertionError(f"{tiny.name} has no export to be held to")

    monkeypatch.setattr(run, "export_folder", lambda tiny: tmp_path)
    monkeypatch.setattr(run, "hold_to_minimum", measure)
    documented = json.loads(run.DOCUMENT.read_text())
    rest = run.other_rows(MODELS, documented[:3])
    assert rest == documented[3:]
