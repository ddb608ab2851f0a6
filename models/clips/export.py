"""
Export trained modules to ONNX with weights stored as fp16, and compare with PyTorch.

``python export.py --weights DIR --out DIR`` reads ``vae.pt``, ``text.pt`` and
``transformer.pt`` as ``train.py`` writes them; without ``--weights`` the modules are untrained. Large
initialisers become fp16 and a Cast to float follows each, so that activations stay fp32
and a run time may fold the casts.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from text_encoder import TextEncoder
from torch import Tensor, nn
from torch.export import Dim
from transformer import ClipsTransformer
from tutti.clips.tokenizer import LENGTH, WordTokenizer
from vae import LATENT_CHANNELS, VideoVAE

import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 23
SMALLEST_HALF = 1024  # elements; smaller initialisers stay fp32
LATENT_SHAPE = (LATENT_CHANNELS, 7, 16, 16)


def make_text_encoder() -> TextEncoder:
    return TextEncoder(len(WordTokenizer.from_grammar().words), LENGTH)


@torch.no_grad()
def round_to_half(module: nn.Module) -> nn.Module:
    """Round, in place, the weights that export stores as fp16."""
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.dtype == torch.float32 and tensor.numel() >= SMALLEST_HALF:
            tensor.copy_(tensor.half().float())
    return module


def save(module: nn.Module, path: Path) -> None:
    """Save a module's weights, large ones as fp16."""
    state = {
        k: v.half() if v.numel() >= SMALLEST_HALF else v for k, v in module.state_dict().items()
    }
    torch.save({k: v.cpu().contiguous() for k, v in state.items()}, path)


def load(module: nn.Module, path: Path) -> None:
    """Load what ``save`` wrote."""
    module.load_state_dict({k: v.float() for k, v in torch.load(path, map_location="cpu").items()})


def halve_initialisers(model: onnx.ModelProto) -> None:
    """Store large fp32 initialisers as fp16, each followed by a Cast to float."""
    casts = []
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if tensor.data_type != TensorProto.FLOAT or values.size < SMALLEST_HALF:
            continue
        name, stored = tensor.name, tensor.name + "_fp16"
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), stored))
        casts.append(
            helper.make_node("Cast", [stored], [name], name + "_to_float", to=TensorProto.FLOAT)
        )
    for info in list(model.graph.value_info):
        if info.name in {cast.output[0] for cast in casts}:
            model.graph.value_info.remove(info)
    model.graph.node.extend(casts)
    # Casts first, to keep the nodes in topological order.
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[len(nodes) - len(casts) :] + nodes[: len(nodes) - len(casts)])


def export(
    module: nn.Module, inputs: dict[str, Tensor], output: str, dims: dict, path: Path
) -> onnx.ModelProto:
    """Export one module, its weights in ``path`` + ``.data``."""
    module = module.eval().float().cpu()
    with torch.no_grad():
        program = torch.onnx.export(
            module, kwargs=inputs, dynamo=True, opset_version=OPSET, verbose=False,
            input_names=list(inputs), output_names=[output], dynamic_shapes=dims,
        )  # fmt: skip
    model = program.model_proto
    del model.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]  # the exporter's stack traces
        node.doc_string = ""
    for info in [
        *model.graph.value_info,
        *model.graph.input,
        *model.graph.output,
        *model.graph.initializer,
    ]:
        del info.metadata_props[:]
    halve_initialisers(model)
    data = path.with_name(path.name + ".data")
    data.unlink(missing_ok=True)
    onnx.save(
        model, path, save_as_external_data=True, all_tensors_to_one_file=True, location=data.name,
        size_threshold=SMALLEST_HALF,
    )  # fmt: skip
    data.chmod(0o644)
    onnx.checker.check_model(str(path))
    return onnx.load(path, load_external_data=False)


def compare(module: nn.Module, inputs: dict[str, Tensor], path: Path) -> float:
    """Relative error ``|onnxruntime - torch| / |torch|`` in fp32 on the CPU."""
    import onnxruntime

    with torch.no_grad():
        right = module.eval().float().cpu()(**inputs).numpy()
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    seen = session.run(None, {name: value.numpy() for name, value in inputs.items()})[0]
    return float(np.linalg.norm(seen - right) / np.linalg.norm(right))


def export_all(vae: VideoVAE, text: TextEncoder, transformer: ClipsTransformer, out: Path) -> dict:
    """Export the three models; returns their operators, sizes and relative errors."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    vocabulary = text.words.num_embeddings
    batch, frames, height, width, words = (
        Dim(n) for n in ("batch", "frames", "height", "width", "text_len")
    )
    ids = lambda b, n: torch.randint(1, vocabulary, (b, n))
    latents = lambda b, shape: torch.randn(b, *shape)
    dit = lambda b, shape, n: {
        "hidden_states": latents(b, shape),
        "timestep": torch.rand(b) * 1000,
        "encoder_hidden_states": torch.randn(b, n, transformer.config.text_dim),
    }
    video = {0: batch, 2: frames, 3: height, 4: width}
    other = (LATENT_CHANNELS, 3, 10, 12)
    # Of each model: the example, its symbolic dims, and a second shape to compare with.
    plans = [
        ("text_encoder", text, "encoder_hidden_states", {"input_ids": ids(2, LENGTH)},
         {"input_ids": {0: batch, 1: words}}, {"input_ids": ids(1, 9)}),
        ("vae_decoder", vae.decoder, "clip", {"latents": latents(2, (LATENT_CHANNELS, 3, 8, 12))},
         {"latents": video}, {"latents": latents(1, LATENT_SHAPE)}),
        ("transformer", transformer, "sample", dit(2, LATENT_SHAPE, LENGTH),
         {"hidden_states": video, "timestep": {0: batch}, "encoder_hidden_states": {0: batch, 1: words}},
         dit(1, other, 9)),
    ]  # fmt: skip
    report = {}
    for name, module, output, inputs, dims, second in plans:
        path = out / f"{name}.onnx"
        with torch.no_grad():
            before = module.eval().float().cpu()(**inputs)
        model = export(round_to_half(module), inputs, output, dims, path)
        with torch.no_grad():
            unrounded = float((module(**inputs) - before).norm() / before.norm())
        report[name] = {
            "opset": {o.domain or "ai.onnx": o.version for o in model.opset_import},
            "operators": dict(sorted(Counter(node.op_type for node in model.graph.node).items())),
            "nodes": len(model.graph.node),
            "bytes": sum(p.stat().st_size for p in (path, path.with_name(path.name + ".data"))),
            "error_against_torch": [compare(module, inputs, path), compare(module, second, path)],
            "error_of_fp16_rounding": unrounded,
        }
        print(name, json.dumps(report[name]), flush=True)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "onnx")
    options = parser.parse_args()
    torch.manual_seed(0)
    vae, text, transformer = VideoVAE(), make_text_encoder(), ClipsTransformer()
    if options.weights:
        for module, name in ((vae, "vae.pt"), (text, "text.pt"), (transformer, "transformer.pt")):
            load(module, options.weights / name)
    else:
        nn.init.normal_(transformer.out.weight, std=0.05)
        nn.init.normal_(transformer.condition.weight, std=0.02)
    report = export_all(vae, text, transformer, options.out)
    (options.out / "export_report.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
