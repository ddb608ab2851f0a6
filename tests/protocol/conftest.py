"""Models, repositories and servers for the protocol tests."""

import shutil
import subprocess

import pytest
import tiny_models
from serving import RANKS, Server, compile_model


@pytest.fixture(scope="session")
def onnx_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    return {
        build.__name__: build(folder / f"{build.__name__}.onnx")
        for build in (
            tiny_models.affine,
            tiny_models.add_sub,
            tiny_models.cast,
            tiny_models.square,
            tiny_models.deep,
            tiny_models.attention,
        )
    }


@pytest.fixture(scope="session")
def plans(onnx_files, tmp_path_factory):
    """Compiled models that tests copy into repositories of their own."""
    folder = tmp_path_factory.mktemp("plans")
    for name in ("affine", "add_sub", "cast", "square", "deep"):
        compile_model(onnx_files[name], folder / name)
    for datatype in tiny_models.IDENTITY_TYPES:
        name = f"identity_{datatype}"
        compile_model(tiny_models.identity(folder.parent / f"{name}.onnx", datatype), folder / name)
    for ranks in RANKS:
        mesh = ("--mesh", f"cp={ranks}", "--strategy", "ulysses") if ranks > 1 else ()
        compile_model(onnx_files["attention"], folder / f"attention_cp{ranks}", *mesh)
    return folder


@pytest.fixture(scope="session")
def served(plans, tmp_path_factory):
    """One server with all models, for tests that change nothing."""
    server = Server(plans, log=tmp_path_factory.mktemp("served") / "serve.log")
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture
def client(served):
    return served.client


@pytest.fixture
def start(tmp_path):
    """start(repository, options...) -> Server; stopped after the test."""
    servers = []

    def start_server(*repositories, options=(), log_in=None):
        log = tmp_path / f"serve{len(servers)}.log"
        servers.append(Server(*repositories, options=options, log=log, log_in=log_in))
        return servers[-1]

    yield start_server
    for server in servers:
        server.stop()


@pytest.fixture
def repository(tmp_path, plans):
    """add(plan, name, version) copies a compiled model into a new repository."""

    class Repository:
        path = tmp_path / "models"

        def add(self, plan, name=None, version=1, config=True):
            folder = self.path / (name or plan)
            shutil.copytree(plans / plan / "1", folder / str(version))
            if config:
                text = (plans / plan / "config.pbtxt").read_text()
                (folder / "config.pbtxt").write_text(text.replace(f'"{plan}"', f'"{folder.name}"'))
            return folder

    Repository.path.mkdir()
    return Repository()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """An authority, and what it signed for a server and a client."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt",
            "-days", "2", "-subj", "/CN=authority")  # fmt: skip
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out",
                f"{name}.csr", "-subj", f"/CN={name}")  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.crt")  # fmt: skip
    return folder
