"""The reference workload (bench/cosmos) in PyTorch: what we race against.

As one would write it for speed by hand: cuDNN attention with grouped heads unexpanded, everything between two
attentions in one function, which `torch.compile` may take; Ulysses over NCCL with two exchanges a layer, packed by
the compiled function. The text tower's keys and values are computed once, outside of what is timed.
"""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cosmos.sizes import Sizes

LINEARS = {
    "q": "attention.q", "k": "attention.k", "v": "attention.v", "out": "attention.out",
    "gate": "mlp.gate", "up": "mlp.up", "down": "mlp.down",
}  # fmt: skip
NORMS = {
    "norm1": "norm1",
    "norm2": "norm2",
    "q_norm": "attention.q.norm",
    "k_norm": "attention.k.norm",
}
OTHER_LINEARS = ("patch_in", "patch_out", "time.up", "time.out")


@dataclasses.dataclass
class Layer:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    norm1: torch.Tensor
    norm2: torch.Tensor
    q_norm: torch.Tensor
    k_norm: torch.Tensor


class RandomWeights:
    """Weights made on the device."""

    def __init__(self, sizes, dtype, device):
        self.sizes, self.dtype, self.device = sizes, dtype, device
        self.generator = torch.Generator(device).manual_seed(0)

    def normal(self, *shape, deviation, mean=0.0):
        x = torch.randn(*shape, generator=self.generator, dtype=self.dtype, device=self.device)
        return x * deviation + mean

    def linear(self, name):
        s = self.sizes
        inner, keys = s.heads * s.head_size, s.kv_heads * s.head_size
        shapes = {
            "q": (inner, s.width), "k": (keys, s.width), "v": (keys, s.width), "out": (s.width, inner),
            "gate": (s.mlp, s.width), "up": (s.mlp, s.width), "down": (s.width, s.mlp),
            "patch_in": (s.width, s.features), "patch_out": (s.features, s.width),
            "time.up": (s.width, s.time_features), "time.out": (s.width, s.width),
        }  # fmt: skip
        kind = name if name in shapes else name.rsplit(".", 1)[1]
        shape = shapes[kind]
        return self.normal(*shape, deviation=shape[1] ** -0.5)

    def bias(self, name):
        return self.normal(self.linear(name).shape[0], deviation=0.02)

    def norm(self, name):
        heads = name.endswith((".q.norm", ".k.norm"))
        return self.normal(
            self.sizes.head_size if heads else self.sizes.width, deviation=0.02, mean=1
        )


class FileWeights:
    """Those of a folder that cosmos/weights.py filled, in any type."""

    def __init__(self, folder, dtype, device):
        self.folder, self.dtype, self.device = Path(folder), dtype, device
        self.description = json.loads((self.folder / "weights.json").read_text())
        self.sizes = Sizes(**self.description["sizes"])
        self.stored = getattr(torch, self.description["dtype"])

    def tensor(self, name):
        weight = self.description["weights"][name]
        word = np.int32 if self.stored == torch.float32 else np.int16
        path, count = self.folder / weight["file"], int(np.prod(weight["shape"]))
        words = np.fromfile(path, word, count, offset=weight["offset"])
        stored = torch.from_numpy(words).view(self.stored).reshape(weight["shape"])
        return stored.to(self.device).to(self.dtype)

    def linear(self, name):
        weight = self.tensor(f"{name}.weight")
        return weight if self.description["layout"] == "out-in" else weight.T.contiguous()

    def bias(self, name):
        return self.tensor(f"{name}.bias")

    def norm(self, name):
        return self.tensor(f"{name}.weight")


def read_layer(weights, tower, i):
    linears = {key: weights.linear(f"{tower}.{i}.{name}") for key, name in LINEARS.items()}
    norms = {key: weights.norm(f"{tower}.{i}.{name}") for key, name in NORMS.items()}
    return Layer(**linears, **norms)


def tables(angles, dtype):
    both = torch.cat([angles, angles], -1)
    return both.cos().to(dtype)[:, None, :], both.sin().to(dtype)[:, None, :]


def video_tables(sizes, dtype, device):
    frequencies = torch.from_numpy(sizes.inverse_frequencies()).to(device)
    axes = torch.from_numpy(sizes.rope_axes()).to(device)
    counts = (sizes.frames, sizes.height, sizes.columns)
    places = torch.cartesian_prod(
        *(torch.arange(n, dtype=torch.float32, device=device) for n in counts)
    )
    return tables(places.reshape(-1, 3)[:, axes] * frequencies, dtype)


def text_tables(sizes, dtype, device):
    frequencies = torch.from_numpy(sizes.inverse_frequencies()).to(device)
    places = torch.arange(sizes.text, dtype=torch.float32, device=device)
    return tables(places[:, None] * frequencies, dtype)


def norm(x, weight, epsilon):
    """As the ONNX model: statistics in at least fp32, scaled in the model's type."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return F.rms_norm(x.to(wide), (x.shape[-1],), None, epsilon).to(x.dtype) * weight


def rotate(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def project(x, layer, cos, sin, sizes):
    """Queries, keys and values, [tokens, heads, head_size]."""
    n = norm(x, layer.norm1, sizes.epsilon)
    q, k, v = (
        F.linear(n, w).unflatten(-1, (-1, sizes.head_size)) for w in (layer.q, layer.k, layer.v)
    )
    q = rotate(norm(q, layer.q_norm, sizes.epsilon), cos, sin)
    k = rotate(norm(k, layer.k_norm, sizes.epsilon), cos, sin)
    return q, k, v


def project_and_pack(x, layer, cos, sin, sizes, ranks):
    """The same for an exchange: [ranks, tokens of a rank, features of a rank]."""
    parts = [y.flatten(1).unflatten(1, (ranks, -1)) for y in project(x, layer, cos, sin, sizes)]
    return torch.cat(parts, -1).transpose(0, 1).contiguous()


def finish(x, attended, layer, sizes):
    """attended: [tokens, heads, head_size], or [ranks, tokens of a rank, features of a rank]."""
    if attended.shape[1] == x.shape[0]:
        attended = attended.transpose(0, 1)
    x = x + F.linear(attended.flatten(1), layer.out)
    n = norm(x, layer.norm2, sizes.epsilon)
    return x + F.linear(F.silu(F.linear(n, layer.gate)) * F.linear(n, layer.up), layer.down)


def cudnn_attention(q, k, v):
    """[tokens, heads, head_size] each; keys and values may have fewer heads."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
        try:
            out = F.scaled_dot_product_attention(q, k, v, enable_gqa=grouped)
        except RuntimeError:  # versions whose dispatcher does not offer grouped heads to cuDNN
            operator = torch.ops.aten._scaled_dot_product_cudnn_attention
            out = operator(q, k, v, None, False, 0.0, False, False)[0]
    return out[0].transpose(0, 1)


def plain_attention(q, k, v, is_causal=False):
    """In the type of its operands, a head at a time."""
    group = q.shape[1] // k.shape[1]
    out = torch.empty_like(q)
    for head in range(q.shape[1]):
        scores = (q[:, head] @ k[:, head // group].T) * q.shape[2] ** -0.5
        if is_causal:
            closed = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(closed, -torch.inf)
        out[:, head] = scores.softmax(-1) @ v[:, head // group]
    return out


class Model:
    """On one rank of `ranks`; rank r has the r-th piece of the tokens, and of the heads in attentions."""

    def __init__(self, weights, rank=0, ranks=1, compiled=False, attention=cudnn_attention):
        self.sizes, self.dtype, self.device = weights.sizes, weights.dtype, weights.device
        self.rank, self.ranks, self.attention = rank, ranks, attention
        self.layers = [read_layer(weights, "video", i) for i in range(self.sizes.layers)]
        self.other = {n: (weights.linear(n), weights.bias(n)) for n in OTHER_LINEARS}
        self.norm_out = weights.norm("norm_out")
        piece = slice(*self.piece(self.sizes.frames * self.sizes.height * self.sizes.columns))
        self.tables = [t[piece] for t in video_tables(self.sizes, self.dtype, self.device)]
        wrap = torch.compile(dynamic=False) if compiled else lambda f: f
        self.project, self.pack, self.finish = wrap(project), wrap(project_and_pack), wrap(finish)

    def piece(self, size):
        return self.rank * size // self.ranks, (self.rank + 1) * size // self.ranks

    def random_text(self):
        """Keys and values of a text, of each layer, [text, heads of this rank, head_size]."""
        s = self.sizes
        generator = torch.Generator(self.device).manual_seed(1)
        shape = (s.layers, 2, s.text, s.kv_heads // self.ranks, s.head_size)
        return torch.randn(shape, generator=generator, dtype=self.dtype, device=self.device)

    def time_embedding(self, timestep):
        half = self.sizes.time_features // 2
        powers = np.exp(-np.log(10000.0) * np.arange(half, dtype=np.float64) / half)
        angles = timestep * torch.from_numpy(powers.astype(np.float32)).to(self.device)
        x = torch.cat([angles.cos(), angles.sin()], -1).to(self.dtype)
        x = F.silu(F.linear(x, *self.other["time.up"]))
        return F.linear(x, *self.other["time.out"])

    def attend(self, x, layer, keys, values):
        if self.ranks == 1:
            q, k, v = self.project(x, layer, *self.tables, self.sizes)
            return self.attention(q, torch.cat([keys, k]), torch.cat([values, v]))
        s, n = self.sizes, self.ranks
        packed = self.pack(x, layer, *self.tables, s, n)
        received = torch.empty_like(packed)
        dist.all_to_all_single(received, packed)
        heads = received.flatten(0, 1).unflatten(1, (-1, s.head_size))
        q, k, v = heads.split([s.heads // n, s.kv_heads // n, s.kv_heads // n], 1)
        out = self.attention(q, torch.cat([keys, k]), torch.cat([values, v])).contiguous()
        back = torch.empty(
            (n, x.shape[0], out.shape[1] * out.shape[2]), dtype=out.dtype, device=out.device
        )
        dist.all_to_all_single(back, out.view_as(back))
        return back

    @torch.no_grad()
    def __call__(self, patches, timestep, text):
        """patches: [tokens, features], whole; the same comes back."""
        x = F.linear(patches[slice(*self.piece(len(patches)))], *self.other["patch_in"])
        x = x + self.time_embedding(timestep)
        for layer, (keys, values) in zip(self.layers, text, strict=True):
            x = self.finish(x, self.attend(x, layer, keys, values), layer, self.sizes)
        x = F.linear(norm(x, self.norm_out, self.sizes.epsilon), *self.other["patch_out"])
        if self.ranks == 1:
            return x
        whole = torch.empty_like(patches)
        dist.all_gather_into_tensor(whole, x)
        return whole


@torch.no_grad()
def text_keys_and_values(weights, ids):
    """The text tower, for Model's `text`."""
    s = weights.sizes
    x = weights.tensor("embedding.weight")[ids]
    cos, sin = text_tables(dataclasses.replace(s, text=len(ids)), weights.dtype, weights.device)
    for i in range(s.layers):
        layer = read_layer(weights, "text", i)
        q, k, v = project(x, layer, cos, sin, s)
        yield k, v
        x = finish(x, plain_attention(q, k, v, is_causal=True), layer, s)
