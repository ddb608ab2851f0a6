"""Writes seeds for the ONNX fuzzer: the operator models of the `onnx` package and the models of
tests/protocol, each as it is and with all inputs but the first, or all, as constants.

    .venv/bin/python tests/fuzz/onnx_seeds.py FOLDER
"""

import sys
import warnings
from pathlib import Path

from onnx.backend.test.loader import load_model_tests

import onnx
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 4096  # bytes: small ones are changed where it counts


def with_constants(model, arrays, first):
    """The model whose inputs from number `first` on are constants."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    constants = [
        numpy_helper.from_array(array, value.name)
        for value, array in list(zip(graph.input, arrays, strict=False))[first:]
    ]
    inputs = list(graph.input)[:first]
    del graph.input[:]
    graph.input.extend(inputs)
    graph.initializer.extend(constants)
    return changed


def operator_models():
    for case in load_model_tests(kind="node"):
        model = onnx.load(Path(case.model_dir) / "model.onnx") if case.model is None else case.model
        yield model
        try:
            arrays = [onnx_array(item) for item in case_inputs(case)]
            yield with_constants(model, arrays, 1)
            yield with_constants(model, arrays, 0)
        except (TypeError, AttributeError, ValueError):
            continue  # sequences and optionals


def case_inputs(case):
    if case.data_sets:
        return case.data_sets[0][0]
    files = sorted((Path(case.model_dir) / "test_data_set_0").glob("input_*.pb"))
    return [onnx.TensorProto.FromString(file.read_bytes()) for file in files]


def onnx_array(item):
    return numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else item


def tiny_models(folder):
    sys.path.insert(0, str(ROOT / "tests/protocol"))
    import tiny_models

    for build in (
        tiny_models.affine,
        tiny_models.add_sub,
        tiny_models.square,
        tiny_models.attention,
    ):
        yield onnx.load(build(folder / "tiny.onnx"))
    (folder / "tiny.onnx").unlink()


def main():
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for models in (tiny_models(folder), operator_models()):
        for model in models:
            data = model.SerializeToString()
            if len(data) <= LARGEST:
                (folder / f"onnx_{count}").write_bytes(data)
                count += 1
    print(f"{count} models in {folder}")


if __name__ == "__main__":
    main()
