"""Runs the operator cases of the `onnx` package through `tutti run`.

The right answers are ONNX's own (computed by its reference code in NumPy). Each case ends as one of

- passed: the outputs agree within the case's own tolerance,
- refused: a clear error (exit code 1 and a message) of an operator or form that is not supported,
- wrong: outputs that differ, or
- crashed: anything else.

An operator is supported when `tutti inspect operators` lists it. Cases whose tensors have types
that the engine does not have (strings, complex, 4-bit and 8-bit floats, sequences, optionals) and
cases of other domains are not counted as supported. An input that determines shapes is bound as a
constant (`--bind`), which is also how a user fixes it.

Report: build/reports/operators.json.
"""

import argparse
import collections
import json
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from onnx.backend.test.loader import load_model_tests

import onnx

ROOT = Path(__file__).resolve().parents[2]
SUPPORTED_TYPES = {
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
    onnx.TensorProto.INT8,
    onnx.TensorProto.INT16,
    onnx.TensorProto.INT32,
    onnx.TensorProto.INT64,
    onnx.TensorProto.UINT8,
    onnx.TensorProto.UINT16,
    onnx.TensorProto.UINT32,
    onnx.TensorProto.UINT64,
    onnx.TensorProto.BOOL,
}
MAX_OPSET = 24


def type_reason(model):
    """Why the engine has no types for a model's tensors, or None."""
    values = list(model.graph.input) + list(model.graph.output) + list(model.graph.value_info)
    for value in values:
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return f"type {kind}"
        if value.type.tensor_type.elem_type not in SUPPORTED_TYPES:
            name = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
            return f"type {name}"
    return None


def operators_of(model):
    """(domain, op_type) of every node, those in subgraphs and functions too."""
    found = set()

    def walk(nodes):
        for node in nodes:
            found.add((node.domain, node.op_type))
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    walk(attribute.g.node)
                for graph in attribute.graphs:
                    walk(graph.node)

    walk(model.graph.node)
    for function in model.functions:
        walk(function.node)
    return found


def save(path, array):
    """An .npy file; ml_dtypes' bfloat16 becomes NumPy's 2-byte void, as tutti reads it."""
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":
        array = array.view(np.dtype("V2"))
    np.save(path, array)


def load(path, like):
    array = np.load(path)
    return array.view(like.dtype) if array.dtype.kind == "V" else array


def agree(got, want, rtol, atol):
    """None, or how two arrays differ."""
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if want.dtype.kind in "biu":
        return None if np.array_equal(got, want) else "integers differ"
    if want.dtype.name in ("float16", "bfloat16"):
        rtol, atol = max(rtol, 1e-2), max(atol, 1e-3)
    g, w = got.astype(np.float64), want.astype(np.float64)
    if np.allclose(g, w, rtol=rtol, atol=max(atol, 1e-6), equal_nan=True):
        return None
    return f"largest difference {np.nanmax(np.abs(g - w)):.3g}"


def attempts(model, arrays):
    """Which inputs to bind, from none to all but the first."""
    names = [value.name for value in model.graph.input]
    shapes = [
        n for n, a in zip(names, arrays, strict=False) if a.dtype.kind in "iu" and a.ndim <= 1
    ]
    yield []
    if shapes and shapes != names:
        yield [n for n in shapes if n != names[0]] or shapes
    if len(names) > 1:
        yield names[1:]
    yield names


def run_case(case, binary, folder):
    """('passed' | 'refused' | 'wrong' | 'crashed', detail)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    inputs, outputs = case.data_sets[0]
    names = [value.name for value in case.model.graph.input]
    for name, array in zip(names, inputs, strict=False):
        save(folder / f"in_{names.index(name)}.npy", array)
    refused = ""
    seen = []
    for bound in attempts(case.model, [np.asarray(a) for a in inputs]):
        if bound in seen:
            continue
        seen.append(bound)
        command = [binary, "run", str(folder / "model.onnx"), "--min-opset", "1"]
        for i, name in enumerate(names[: len(inputs)]):
            flag = "--bind" if name in bound else "--input"
            command += [flag, f"{name}={folder}/in_{i}.npy"]
        command += ["--output-dir", str(folder / "out")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return "crashed", "no answer in 60 s"
        if done.returncode not in (0, 1):
            return "crashed", f"exit code {done.returncode}: {done.stderr[-300:]}"
        if done.returncode == 0:
            break
        message = done.stderr.strip()
        if not message:
            return "crashed", "exit code 1 without a message"
        refused = refused or message
        if "--bind" not in message:
            return "refused", message
    else:
        return "refused", refused
    for i, (value, want) in enumerate(zip(case.model.graph.output, outputs, strict=True)):
        path = folder / "out" / f"{i}.npy"
        if not path.exists():
            return "crashed", f"no output {value.name}"
        difference = agree(load(path, np.asarray(want)), want, case.rtol, case.atol)
        if difference:
            return "wrong", f"output '{value.name}': {difference}"
    return "passed", ""


def collect(pattern):
    """The cases of the package, each as (case, reason it cannot be supported or None)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for case in cases:
        if pattern and pattern not in case.name:
            continue
        yield case


def unsupported_reason(case, supported):
    model = case.model
    versions = {imported.domain: imported.version for imported in model.opset_import}
    if versions.get("", 1) > MAX_OPSET:
        return f"opset {versions['']} is newer than {MAX_OPSET}"
    reason = type_reason(model)
    if reason:
        return reason
    functions = {(f.domain, f.name) for f in model.functions}
    missing = sorted(operators_of(model) - supported - functions)
    if missing:
        return "operator " + ", ".join(f"{d}::{t}" if d else t for d, t in missing)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/bin/tutti"))
    parser.add_argument("--report", default=str(ROOT / "build/reports/operators.json"))
    parser.add_argument("--only", default="", help="run cases whose name contains this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()

    listing = subprocess.run(
        [options.binary, "inspect", "operators", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    supported = {(op["domain"], op["type"]) for op in json.loads(listing.stdout)["onnx"]}
    supported.add(("", "If"))

    results = {}
    reasons = {}
    jobs = []
    for case in collect(options.only):
        reason = unsupported_reason(case, supported)
        if reason:
            reasons[case.name] = reason
        else:
            jobs.append(case)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        answers = pool.map(
            lambda case: run_case(case, options.binary, Path(scratch) / case.name), jobs
        )
        for case, answer in zip(jobs, answers, strict=True):
            results[case.name] = answer
            if options.verbose or answer[0] in ("wrong", "crashed"):
                print(f"{answer[0]:8} {case.name} {answer[1]}", flush=True)

    schemas = {s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}
    counts = collections.Counter(kind for kind, _ in results.values())
    report = {
        "onnx": onnx.__version__,
        "total": len(results) + len(reasons),
        "supported": len(results),
        "passed": counts["passed"],
        "refused": {n: d for n, (k, d) in results.items() if k == "refused"},
        "wrong": {n: d for n, (k, d) in results.items() if k == "wrong"},
        "crashed": {n: d for n, (k, d) in results.items() if k == "crashed"},
        "unsupported": reasons,
        "operators": {
            "total": len(schemas),
            "supported": len({t for d, t in supported if d == ""} & schemas),
            "missing": sorted(schemas - {t for d, t in supported if d == ""}),
        },
    }
    Path(options.report).parent.mkdir(parents=True, exist_ok=True)
    Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    print(
        f"operators: {report['operators']['supported']} of {report['operators']['total']}; "
        f"cases: {report['passed']} of {report['supported']} supported pass "
        f"({report['total']} in all), {len(report['refused'])} refused, "
        f"{len(report['wrong'])} wrong, {len(report['crashed'])} crashed"
    )
    enough = report["passed"] >= 0.95 * report["supported"]
    return 0 if enough and not report["wrong"] and not report["crashed"] else 1


if __name__ == "__main__":
    sys.exit(main())
