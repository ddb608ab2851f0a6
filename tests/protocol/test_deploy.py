"""deploy/: what can be checked without a cluster, an image or a running systemd."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import serving
import yaml

DEPLOY = serving.ROOT / "deploy"
UNIT = DEPLOY / "tutti.service"
DOCKERFILE = DEPLOY / "Dockerfile"
MANIFEST = DEPLOY / "kubernetes.yaml"


@pytest.fixture(scope="module")
def known_flags():
    text = subprocess.run(
        [serving.TUTTI, "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    return set(re.findall(r"--[a-z0-9-]+", text))


def flags_in(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))


def instructions():
    """The Dockerfile's instructions with their arguments, lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def container():
    (deployment,) = (d for d in manifests() if d["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return deployment["spec"]["template"]["spec"], container


def manifests():
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def test_flags_exist(known_flags):
    start = next(line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))
    assert flags_in(start) <= known_flags
    run = dict(instructions())
    command = json.loads(run["ENTRYPOINT"]) + json.loads(run["CMD"])
    assert command[:2] == ["tutti", "serve"]
    assert {flag.split("=")[0] for flag in command[2:]} <= known_flags
    _, pod = container()
    assert {flag.split("=")[0] for flag in pod["args"]} <= known_flags


def test_the_unit_is_one(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here")
    # It asks whether the program is there.
    program = tmp_path / "tutti"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/tutti/bin/tutti", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "tutti.service" in line]
    assert (done.returncode, complaints) == (0, [])


def test_systemd_waits_longer_than_the_server():
    text = UNIT.read_text()
    patience = int(re.search(r"TimeoutStopSec=(\d+)", text)[1])
    assert patience > int(re.search(r"--exit-timeout-secs=(\d+)", text)[1]) + 5
    assert "KillSignal=SIGTERM" in text


def test_the_image_is_built_as_it_should_be():
    steps = instructions()
    names = [name for name, _ in steps]
    assert set(names) <= {
        *("ARG", "FROM", "LABEL", "ADD", "RUN", "ENV", "USER"),
        *("EXPOSE", "ENTRYPOINT", "CMD", "STOPSIGNAL", "HEALTHCHECK"),
    }
    version = re.search(
        r"^project\(tutti VERSION ([\d.]+)", (serving.ROOT / "CMakeLists.txt").read_text(), re.M
    )[1]
    assert ("ARG", f"VERSION={version}") in steps
    # What scripts/dist writes.
    (add,) = (args for name, args in steps if name == "ADD")
    assert add == "dist/tutti-${VERSION}-linux-x86_64.tar.gz /opt/"
    assert "tutti-$version-linux-x86_64" in (serving.ROOT / "scripts" / "dist").read_text()
    # The last user is no root; commands are lists, so that signals reach the server itself.
    user = [args for name, args in steps if name == "USER"][-1]
    assert user.isdigit()
    assert int(user) > 0
    for name in ("ENTRYPOINT", "CMD"):
        (args,) = (args for one, args in steps if one == name)
        assert isinstance(json.loads(args), list)
    base = dict(part.split("=", 1) for name, part in steps if name == "ARG")["BASE"]
    assert not base.endswith(":latest")
    assert ":" in base


def test_the_manifest_fits_together():
    kinds = {document["kind"] for document in manifests()}
    assert kinds == {"Deployment", "Service"}
    pod, main = container()
    ports = {port["name"]: port["containerPort"] for port in main["ports"]}
    assert ports == {"http": 8000, "grpc": 8001, "metrics": 8002}
    (service,) = (d for d in manifests() if d["kind"] == "Service")
    (deployment,) = (d for d in manifests() if d["kind"] == "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for port in service["spec"]["ports"]:
        assert port["targetPort"] in ports
    assert {mount["name"] for mount in main["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    drain = next(int(a.split("=")[1]) for a in main["args"] if a.startswith("--exit-timeout-secs"))
    assert pod["terminationGracePeriodSeconds"] > drain + 5
    # The image's user may not be root.
    assert pod["securityContext"]["runAsUser"] == int(dict(instructions())["USER"])


def test_probes_are_answered(tmp_path):
    """What kubelet would ask, against a server without models."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from raw_http import ask

    (tmp_path / "models").mkdir()
    server = serving.Server(tmp_path / "models", log=tmp_path / "serve.log")
    try:
        _, main = container()
        for probe in ("startupProbe", "livenessProbe"):
            assert main[probe]["httpGet"]["port"] == "http"
            assert ask(server.http_url, "GET", main[probe]["httpGet"]["path"]).status == 200
        assert main["readinessProbe"]["grpc"] == {"port": 8001}
        with grpc.insecure_channel(server.url) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == answer.SERVING
        health = json.loads(dict(instructions())["HEALTHCHECK"].split("CMD", 1)[1])
        done = subprocess.run(
            [serving.TUTTI, *health[1:], "--url", server.metrics_url], capture_output=True
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["server"]["ready"] is True
    finally:
        assert server.stop() == 0


def test_the_readme_names_every_file():
    text = (DEPLOY / "README.md").read_text()
    for file in DEPLOY.iterdir():
        if file.name != "README.md":
            assert f"`{file.name}`" in text
    assert Path(serving.ROOT / "docs" / "serving.md").exists()
