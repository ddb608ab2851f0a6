"""Names of classes: label files beside config.pbtxt."""

import numpy as np
import pytest
import tritonclient.grpc as triton
from serving import tensor
from tritonclient.utils import InferenceServerException

CONFIG = """
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ -1, 4 ] label_filename: "{}" }} ]
"""


def add(repository, name, labels=None):
    folder = repository.add("affine", config=False)
    (folder / "config.pbtxt").write_text(CONFIG.format(name))
    if labels is not None:
        (folder / name).write_bytes(labels)
    return folder


def classes(client, count):
    x = np.array([[0, 3, 1, 2]], np.float32)
    wanted = [triton.InferRequestedOutput("y", class_count=count)]
    result = client.infer("affine", [tensor("x", x, "FP32")], outputs=wanted)
    return [text.decode() for text in result.as_numpy("y").flatten()]


def test_classes_have_their_names(repository, start):
    # The last class has none; a file may come from Windows.
    add(repository, "labels.txt", "cat\r\ndog\r\ntête-à-tête\r\n".encode())
    client = start(repository.path, options=("--cache-config", "local,size=100000")).client
    expected = ["7.000000:1:dog", "5.000000:3", "3.000000:2:tête-à-tête", "1.000000:0:cat"]
    assert classes(client, 4) == expected
    assert classes(client, 1) == expected[:1]
    config = client.get_model_config("affine", as_json=True)["config"]
    assert config["output"][0]["label_filename"] == "labels.txt"


def test_answers_from_the_cache_have_them_too(repository, start):
    folder = add(repository, "labels.txt", b"a\nb\nc\nd\n")
    with open(folder / "config.pbtxt", "a") as config:
        config.write("response_cache { enable: true }\n")
    client = start(repository.path, options=("--cache-config", "local,size=100000")).client
    for _ in range(2):
        assert classes(client, 1) == ["7.000000:1:b"]
    assert client.get_inference_statistics("affine").model_stats[0].inference_stats.cache_hit.count


@pytest.mark.parametrize("name", ["../labels.txt", "/etc/hostname", "..", "sub/labels.txt"])
def test_files_elsewhere_are_refused(repository, start, name):
    add(repository, name)
    with pytest.raises(RuntimeError, match="label_filename.*no plain file name"):
        start(repository.path)


def test_a_file_that_is_not_there_is_named(repository, start):
    add(repository, "labels.txt")
    with pytest.raises(RuntimeError, match=r"output\[0\].label_filename: file .* cannot be read"):
        start(repository.path)


def test_files_elsewhere_are_refused_over_the_network_too(repository, start):
    add(repository, "labels.txt", b"a\n")
    client = start(repository.path, options=("--model-control-mode", "explicit")).client
    config = """{"output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [-1, 4],
                             "label_filename": "../../../etc/passwd"}]}"""
    with pytest.raises(InferenceServerException, match="label_filename"):
        client.load_model("affine", config=config)
