"""docs/ name what the binary has: flags, endpoints, calls, metrics."""

import re
import subprocess

import pytest
from raw_http import ask
from serving import ROOT, TUTTI, Server

DOCS = ROOT / "docs"
PAGES = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
)
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


def code_of(page):
    """What stands in back-ticks and in code blocks."""
    text = page.read_text()
    blocks = re.findall(r"^```.*?^```", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page):
    code = code_of(page)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    asked = set(re.findall(r"(?:^|[`\s])make ([a-z-]+)\b", code))
    assert asked <= targets, sorted(asked - targets)
    files = re.findall(r"(?<![\w./-])((?:scripts|bench|docs|deploy)/[\w./-]*\w)", code)
    missing = [name for name in files if "NAME" not in name and not (ROOT / name).exists()]
    assert not missing, f"no such file: {missing}"
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    broken = [link for link in links if not (page.parent / link).exists()]
    assert not broken, f"no such page: {broken}"


def test_the_commands_of_the_readme_work(tmp_path):
    """Those that need nothing but this repository and the binary."""
    section = (ROOT / "README.md").read_text().split("## By hand")[1].split("\n## ")[0]
    commands = [line.split("#")[0].split()[1:] for line in section.splitlines() if line[:1] == "$"]
    assert [command[0] for command in commands] == ["compile", "inspect", "serve"]
    (tmp_path / "models").symlink_to(ROOT / "models")
    for command in commands[:2]:
        done = subprocess.run([TUTTI, *command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "cp=4" in done.stdout
    repository = tmp_path / commands[2][commands[2].index("--model-repository") + 1]
    server = Server(repository, log=tmp_path / "serve.log")
    assert server.client.is_model_ready("clips_cp4")
    assert server.stop() == 0
