"""docs/ name what the binary has: flags, endpoints, calls, metrics."""

import re
import subprocess

import pytest
from raw_http import ask
from serving import ROOT, TUTTI

DOCS = ROOT / "docs"
SERVING = "".join(path.read_text() for path in sorted(DOCS.glob("serving*.md")))


def help_of(*command):
    return subprocess.run(
        [TUTTI, *command, "--help"], capture_output=True, text=True, check=True
    ).stdout


def flags_of(*command):
    return set(re.findall(r"(?<!\w)--[a-z][A-Za-z0-9-]*", help_of(*command))) - {"--help"}


def documented_flags(text):
    """--grpc-keepalive-time; and of `--grpc-keepalive-time`, `-timeout`: --grpc-keepalive-timeout."""
    return set(re.findall(r"(?<!\w)--[a-z][A-Za-z0-9-]*", text))


def test_every_flag_of_serve_is_explained():
    missing = flags_of("serve") - documented_flags(SERVING)
    assert not missing, f"not in docs/serving.md: {sorted(missing)}"


@pytest.mark.parametrize(
    "command",
    ["compile", "inspect plan", "inspect operators", "inspect backends", "run", "bench", "status"],
)
def test_every_flag_of_other_commands_is_explained(command):
    missing = flags_of(*command.split()) - documented_flags((DOCS / "commands.md").read_text())
    assert not missing, f"{command}: not in docs/commands.md: {sorted(missing)}"


def test_no_flag_is_explained_that_is_not_there():
    table = (DOCS / "serving.md").read_text().split("## Flags")[1].split("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `--")]
    explained = set().union(*map(documented_flags, rows))
    assert explained <= flags_of("serve"), sorted(explained - flags_of("serve"))


def test_every_call_is_explained():
    text = SERVING
    from tritonclient.grpc import service_pb2

    service = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    for method in service.methods:
        short = re.sub(r"^(System|Cuda)SharedMemory", "", method.name)
        assert f"`{method.name}`" in text or f"`-{short}`" in text, method.name


def test_every_metric_is_explained(served):
    text = SERVING
    # `nv_inference_{request,queue}_duration_us` stands for several.
    names = set()
    for name in re.findall(r"`((?:nv|tutti)_[a-z_{},]+)`", text):
        parts = re.match(r"(.*)\{(.*)\}(.*)", name)
        if parts is None:
            names.add(name)
        else:
            names |= {f"{parts[1]}{one}{parts[3]}" for one in parts[2].split(",")}
    page = ask(served.metrics_url, "GET", "/metrics").body.decode()
    served_names = set(re.findall(r"^# TYPE (\w+) ", page, flags=re.MULTILINE))
    missing = served_names - names
    assert not missing, f"not in docs/serving.md: {sorted(missing)}"
