"""The exporter on small modules of its own."""

import functools
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from tutti.export import ExportError, check_export, export_module
from tutti.export.__main__ import main

import onnx


class Outputs(dict):
    pass


class Mixer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x, parts=(), scale: float = 1.0, mask=None, return_dict=True):
        y = self.linear(x) * scale
        for part in parts:
            y = y + part["bias"]
        y = y if mask is None else y * mask
        return Outputs(sample=y, total=y.sum()) if return_dict else (y,)


@pytest.fixture
def arguments():
    torch.manual_seed(0)
    parts = [{"bias": torch.randn(8)}, {"bias": torch.randn(8)}]
    return {"x": torch.randn(2, 5, 8), "parts": parts, "scale": 0.5, "mask": None}


def names(path):
    graph = onnx.load(path, load_external_data=False).graph
    return [i.name for i in graph.input], [o.name for o in graph.output]


def test_tensors_are_named_and_constants_baked_in(tmp_path, arguments):
    path = tmp_path / "m.onnx"
    report = export_module(Mixer(), arguments, path)
    assert names(path) == (["x", "parts.0.bias", "parts.1.bias"], ["sample", "total"])
    assert report.exporter == "torch.export"
    assert onnx.load(path, load_external_data=False).opset_import[0].version == 23


def test_a_tensor_in_two_places_of_the_example_is_two_inputs(tmp_path, arguments):
    module = Mixer()
    arguments["parts"][1] = arguments["parts"][0]
    export_module(module, arguments, tmp_path / "m.onnx")
    other = arguments | {"parts": [{"bias": torch.randn(8)}, {"bias": torch.randn(8)}]}
    assert max(check_export(module, other, tmp_path / "m.onnx").values()) < 1e-6


def test_the_file_gives_the_modules_answer(tmp_path, arguments):
    module = Mixer()
    export_module(module, arguments, tmp_path / "m.onnx")
    errors = check_export(module, arguments, tmp_path / "m.onnx")
    assert max(errors.values()) < 1e-6


def test_the_check_finds_another_modules_answer(tmp_path, arguments):
    export_module(Mixer(), arguments, tmp_path / "m.onnx")
    assert check_export(Mixer(), arguments, tmp_path / "m.onnx")["sample"] > 1e-2


def test_axes_become_symbols(tmp_path, arguments):
    path = tmp_path / "m.onnx"
    export_module(Mixer(), arguments, path, dynamic_axes={"x": {1: "tokens"}})
    shape = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape
    assert [d.dim_param or d.dim_value for d in shape.dim] == [2, "tokens", 8]
    errors = check_export(Mixer(), arguments | {"x": torch.randn(2, 9, 8)}, path)
    assert errors["sample"] != float("inf")


def test_another_method(tmp_path):
    class Decoder(torch.nn.Module):
        def decode(self, z, return_dict=True):
            return z * 2

    report = export_module(Decoder(), {"z": torch.ones(3)}, tmp_path / "m.onnx", method="decode")
    assert (report.inputs, report.outputs) == (["z"], ["output"])


@pytest.mark.parametrize(
    "change, said",
    [
        ({"y": 1}, "Mixer.forward: got an unexpected keyword argument 'y'; it takes x, parts"),
        (
            {"axes": {"z": {0: "n"}}},
            "dynamic axes of 'z', but the tensor inputs are x, parts.0.bias",
        ),
        ({"axes": {"x": {3: "n"}}}, "input 'x' has 3 dimensions, so no axis 3"),
        ({"method": "decode"}, "Mixer has no method 'decode'"),
    ],
)
def test_mistakes_are_named(tmp_path, arguments, change, said):
    options = {"method": change.pop("method", "forward"), "dynamic_axes": change.pop("axes", None)}
    with pytest.raises(ExportError) as error:
        export_module(Mixer(), arguments | change, tmp_path / "m.onnx", **options)
    assert said in str(error.value)


def test_what_cannot_be_exported_says_why(tmp_path):
    class Branches(torch.nn.Module):
        def forward(self, x):
            return x[x > 0].tolist()[0] * x

    with pytest.raises(ExportError, match="Branches cannot be exported; torch.export: "):
        export_module(Branches(), {"x": torch.ones(3)}, tmp_path / "m.onnx")


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tutti.export", *map(str, arguments)], capture_output=True, text=True
    )


def refused(monkeypatch, capsys, *arguments):
    """What the command says that ends without a file."""
    monkeypatch.setattr(sys, "argv", ["tutti-export", *map(str, arguments)])
    assert main() == 1
    return capsys.readouterr().err


def test_the_command_exports_and_checks(tmp_path, monkeypatch, capsys):
    config = {"sample_size": 8, "num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 4}
    config |= {"in_channels": 4, "out_channels": 4, "norm_type": "ada_norm_zero", "patch_size": 2}
    config |= {"num_embeds_ada_norm": 8, "_class_name": "DiTTransformer2DModel"}
    (tmp_path / "pipeline/transformer").mkdir(parents=True)
    (tmp_path / "pipeline/transformer/config.json").write_text(json.dumps(config))
    np.save(tmp_path / "t.npy", np.array([7]))
    example = {
        "hidden_states": {"shape": [1, 4, 8, 8]},
        "timestep": {"file": "t.npy"},
        "class_labels": {"data": [3], "dtype": "int64"},
        "return_dict": False,
    }
    (tmp_path / "example.json").write_text(json.dumps(example))
    options = ["--example", tmp_path / "example.json", "-o", tmp_path / "m.onnx"]
    done = command(tmp_path / "pipeline", "--subfolder", "transformer", "--check", *options)
    assert done.returncode == 0, done.stderr
    assert "onnxruntime, 'output.0': relative error" in done.stdout
    assert names(tmp_path / "m.onnx")[0] == ["hidden_states", "timestep", "class_labels"]

    done = command(tmp_path / "pipeline", *options)
    assert done.returncode == 1
    assert "has no config.json; --subfolder may be transformer" in done.stderr

    refuse = functools.partial(refused, monkeypatch, capsys)
    folder = [tmp_path / "pipeline", "--subfolder", "transformer", *options]
    error = refuse(*folder, "--subfolder", "transfromer")
    assert "transfromer is no folder; --subfolder may be transformer" in error
    error = refuse(*folder, "--constant", "nothing")
    assert "constant 'nothing', but the tensors are hidden_states" in error
    for wrong, said in (
        ({"shape": [1, 9, 4, 4]}, "cannot be called with hidden_states [1, 9, 4, 4]"),
        ({"shape": "4"}, "example 'hidden_states': "),
        ({"file": "nothing.npy"}, "example 'hidden_states': "),
    ):
        (tmp_path / "example.json").write_text(json.dumps(example | {"hidden_states": wrong}))
        assert said in refuse(*folder)


def test_a_mask_that_decides_sizes_can_be_a_constant(tmp_path):
    class Packed(torch.nn.Module):
        def forward(self, x, mask):
            repeats = torch.where(mask, 2, 1)
            wide = x.repeat_interleave(repeats, dim=1)
            taken = torch.repeat_interleave(mask, repeats)
            wide[:, taken] = wide[:, taken] * 2
            if len(taken.nonzero(as_tuple=True)[0]) != 4:
                raise ValueError("expected 2 places, twice each")
            return wide

    inputs = {"x": torch.randn(1, 3, 2), "mask": torch.tensor([True, False, True])}
    path = tmp_path / "m.onnx"
    export_module(Packed(), inputs, path, constants=["mask"])
    assert names(path)[0] == ["x"]
    errors = check_export(Packed(), inputs | {"x": torch.randn(1, 3, 2)}, path)
    assert errors["output"] < 1e-6


class Flexible(torch.nn.Module):
    """Attention within pieces: 6 positions, then 4."""

    def __init__(self, score_mod=None):
        super().__init__()
        self.score_mod = score_mod

    def forward(self, x):
        piece = (torch.arange(10) >= 6).long()

        def same_piece(batch, head, query, key):
            return (piece[query] == piece[key]) & (head + query >= key)

        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        mask = create_block_mask(same_piece, None, 2, 10, 10, device="cpu")
        return flex_attention(x, x * 2, x + 1, score_mod=self.score_mod, block_mask=mask)


def test_flex_attention_becomes_attention_with_a_mask(tmp_path):
    path = tmp_path / "m.onnx"
    inputs = {"x": torch.randn(1, 2, 10, 16)}
    report = export_module(Flexible(), inputs, path)
    assert report.notes == ["rewritten: flex attention became attention with a mask"]
    types = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    assert "Attention" in types
    assert check_export(Flexible(), inputs, path)["output"] < 1e-5


def test_flex_attention_with_another_score_is_refused(tmp_path):
    module = Flexible(lambda score, batch, head, query, key: score + query - key)
    with pytest.raises(ExportError, match="flex attention with a function of scores"):
        export_module(module, {"x": torch.randn(1, 2, 10, 16)}, tmp_path / "m.onnx")


def test_splits_of_symbolic_sizes_are_slices(tmp_path):
    class Joined(torch.nn.Module):
        def forward(self, x, y):
            a, b = torch.cat([x, y], dim=1).split_with_sizes([x.shape[1], y.shape[1]], dim=1)
            return b.sum(1) + 2 * a.sum(1)

    inputs = {"x": torch.randn(1, 3, 4), "y": torch.randn(1, 5, 4)}
    path = tmp_path / "m.onnx"
    axes = {"x": {1: "text"}, "y": {1: "tokens"}}
    export_module(Joined(), inputs, path, dynamic_axes=axes)
    types = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    assert "SplitToSequence" not in types
    others = {"x": torch.randn(1, 6, 4), "y": torch.randn(1, 2, 4)}
    assert check_export(Joined(), others, path)["output"] < 1e-6


def test_a_range_that_the_module_asks_for_is_found(tmp_path):
    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = torch.nn.Parameter(torch.randn(32, 4))

        def forward(self, x):
            return x + self.rows[: x.shape[1]]

    path = tmp_path / "m.onnx"
    export_module(Table(), {"x": torch.zeros(1, 5, 4)}, path, dynamic_axes={"x": {1: "frames"}})
    shape = onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape
    assert [d.dim_param or d.dim_value for d in shape.dim] == [1, "frames", 4]


def test_nearest_exact_growth_is_a_resize(tmp_path):
    module = torch.nn.Upsample(scale_factor=(2.0, 3.0), mode="nearest-exact")
    inputs = {"input": torch.randn(1, 2, 3, 5)}
    path = tmp_path / "m.onnx"
    export_module(module, inputs, path)
    types = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    assert "Resize" in types and not types & {"Gather", "GatherND"}
    assert check_export(module, inputs, path)["output"] == 0
