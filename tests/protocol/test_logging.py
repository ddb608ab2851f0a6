"""The log: its settings over both front ends, its formats, and what no message can do to it."""

import json
import os
import re

import pytest
import tritonclient.http
from raw_http import ask
from serving import assert_well, infer_affine
from tritonclient.utils import InferenceServerException


def test_settings_over_both_front_ends(repository, start):
    repository.add("affine")
    server = start(repository.path)
    with tritonclient.http.InferenceServerClient(server.http_url) as http:
        expected = {
            "log_file": "",
            "log_info": True,
            "log_warning": True,
            "log_error": True,
            "log_verbose_level": 0,
            "log_format": "default",
        }
        assert http.get_log_settings() == expected
        assert http.update_log_settings({"log_verbose_level": 2, "log_info": False}) == {
            **expected,
            "log_verbose_level": 2,
            "log_info": False,
        }
        over_grpc = server.client.get_log_settings(as_json=True)["settings"]
        assert over_grpc["log_verbose_level"] == {"uint32_param": 2}
        assert "bool_param" not in over_grpc["log_info"] or not over_grpc["log_info"]["bool_param"]
        server.client.update_log_settings({"log_format": "json", "log_verbose_level": 0})
        assert http.get_log_settings()["log_format"] == "json"
        for bad in (
            {"log_format": "xml"},
            {"log_info": 1},
            {"log_verbose_level": -1},
            {"log_verbose_level": "much"},
            {"log_nope": True},
            {"log_file": "/tmp/elsewhere"},
        ):
            with pytest.raises(InferenceServerException):
                http.update_log_settings({"log_error": False, **bad})
            assert http.get_log_settings()["log_error"] is True
    assert not os.path.exists("/tmp/elsewhere")
    assert_well(server.client)


def test_settings_have_an_effect(repository, start):
    repository.add("affine")
    server = start(repository.path, options=("--model-control-mode", "explicit"))
    server.client.load_model("affine")
    before = server.log.read_text()
    assert "loading model 'affine'" in before
    server.client.update_log_settings({"log_info": False})
    server.client.load_model("affine")
    assert server.log.read_text() == before
    server.client.update_log_settings({"log_info": True, "log_format": "ISO8601"})
    server.client.load_model("affine")
    added = server.log.read_text()[len(before) :].splitlines()
    assert added
    for line in added:
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I \d+\] ", line), line


def test_json_lines(repository, start):
    repository.add("affine")
    server = start(repository.path, options=("--log-format", "json", "--log-warning", "false"))
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert any("model 'affine' version 1 is ready" in line["message"] for line in lines)
    for line in lines:
        assert set(line) == {"time", "severity", "pid", "message"}
        assert line["severity"] == "info"


def test_a_file_of_its_own(repository, start, tmp_path):
    repository.add("affine")
    file = tmp_path / "tutti.log"
    file.write_text("kept\n")
    server = start(repository.path, options=("--log-file", file), log_in=file)
    assert file.read_text().startswith("kept\n")
    assert "Started HTTPService" in file.read_text()
    assert server.client.get_log_settings(as_json=True)["settings"]["log_file"] == {
        "string_param": str(file)
    }


@pytest.mark.parametrize("format_", ["default", "ISO8601", "json"])
def test_no_request_writes_lines_of_its_own(repository, start, format_):
    repository.add("affine")
    options = (
        "--model-control-mode",
        "explicit",
        "--log-format",
        format_,
        "--load-model",
        "affine",
    )
    server = start(repository.path, options=options)
    name = "x%0aE0101 00:00:00.000000 1] forged%1b[31m"
    assert (
        ask(
            server.http_url, "POST", f"/v2/repository/models/{name.replace(' ', '%20')}/load"
        ).status
        != 200
    )
    text = server.log.read_text()
    assert "\nE0101 00:00:00" not in text
    assert "\x1b" not in text
    infer_affine(server.client)
