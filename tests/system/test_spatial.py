"""The sample model's video decoder, split in height, width or time."""

import numpy as np
import pytest
from sample_models import CHANNELS, ONNX, relative_error

import onnx

DECODER = ONNX / "vae_decoder.onnx"
TOLERANCE = 1e-4  # fp32, the project's bar
DIMENSIONS = {"time": 2, "height": 3, "width": 4}
RANKS = (2, 3, 4, 8)
# Neither divides by 3 or 8; 4 latent frames become 13.
SIZES = {"batch": 1, "frames": 4, "height": 10, "width": 12}


def latents(**sizes):
    sizes = SIZES | sizes
    shape = (sizes["batch"], CHANNELS, sizes["frames"], sizes["height"], sizes["width"])
    return {"latents": np.random.default_rng(3).standard_normal(shape, dtype=np.float32)}


def mesh_options(ranks, dimension):
    return ("--mesh", f"sp={ranks}", "--shard", f"latents:{DIMENSIONS[dimension]}=sp")


@pytest.fixture(scope="module")
def one_rank(tutti, tmp_path_factory):
    (frames,) = tutti.run(DECODER, latents(), tmp_path_factory.mktemp("one"))
    return frames


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("ranks", RANKS)
def test_frames_equal_those_of_one_rank(tutti, tmp_path, one_rank, ranks, dimension):
    (frames,) = tutti.run(DECODER, latents(), tmp_path, *mesh_options(ranks, dimension))
    assert relative_error(frames, one_rank) <= TOLERANCE


@pytest.mark.parametrize("ranks", RANKS)
def test_the_strategy_chooses_a_dimension_by_itself(tutti, tmp_path, one_rank, ranks):
    (frames,) = tutti.run(DECODER, latents(), tmp_path, "--mesh", f"sp={ranks}")
    assert relative_error(frames, one_rank) <= TOLERANCE


def test_batch_and_space_are_split_together(tutti, tmp_path):
    feeds = latents(batch=2, frames=2)
    (one,) = tutti.run(DECODER, feeds, tmp_path / "one")
    (many,) = tutti.run(DECODER, feeds, tmp_path / "many", "--mesh", "cfg=2,sp=2")
    assert relative_error(many, one) <= TOLERANCE


def compiled(tutti, folder, ranks, dimension, sizes):
    tutti("compile", DECODER, "--output", folder / "m", *mesh_options(ranks, dimension))
    return tutti.inspect(folder / "m/1/model.plan", sizes)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("ranks", RANKS)
def test_flops_are_shared_evenly(tutti, tmp_path, ranks, dimension):
    sizes = SIZES | {"frames": 13, "height": 24, "width": 24}
    one = compiled(tutti, tmp_path / "one", 1, dimension, sizes)["by_rank"][0]["main"]["flops"]
    report = compiled(tutti, tmp_path / "many", ranks, dimension, sizes)
    flops = [rank["main"]["flops"] for rank in report["by_rank"]]
    # Pieces differ by a row at most: of 13 latent frames over 8 ranks, by one of two.
    rows = sizes[{"time": "frames"}.get(dimension, dimension)]
    assert max(flops) <= one * -(-rows // ranks) / rows * 1.02


def pieces(size, ranks):
    """First row and number of rows of each rank."""
    counts = [size // ranks + (rank < size % ranks) for rank in range(ranks)]
    return [(sum(counts[:rank]), counts[rank]) for rank in range(ranks)]


class RowCounter:
    """Walks the ONNX graph and counts, row by row, what convolutions and slices lack."""

    def __init__(self, dim, ranks, sizes):
        model = onnx.load(DECODER, load_external_data=False)
        for value in model.graph.input:
            for entry in value.type.tensor_type.shape.dim:
                if entry.dim_param:
                    entry.dim_value = sizes[entry.dim_param]
        model = onnx.shape_inference.infer_shapes(model, data_prop=True, strict_mode=True)
        self.graph = model.graph
        self.shapes = {
            value.name: [entry.dim_value for entry in value.type.tensor_type.shape.dim]
            for value in (*model.graph.input, *model.graph.value_info, *model.graph.output)
        }
        self.dim, self.ranks = dim, ranks
        # Rows by rank, of values that are split: first the one that the seed names.
        self.held = {"latents": self.balanced("latents")}
        self.bytes = 0

    def rows(self, name):
        return self.shapes[name][self.dim]

    def read(self, name, needed):
        """Counts what ranks lack of the rows that they need."""
        if name not in self.held:
            return
        row_bytes = 4 * np.prod(self.shapes[name]) // self.rows(name)
        for have, want in zip(self.held[name], needed, strict=True):
            inside = {row for row in want if 0 <= row < self.rows(name)}
            self.bytes += len(inside - have) * int(row_bytes)

    def balanced(self, name):
        return [
            set(range(first, first + count)) for first, count in pieces(self.rows(name), self.ranks)
        ]

    def count(self):
        axis = self.dim - 2
        for node in self.graph.node:
            if not node.input or len(self.shapes.get(node.output[0], ())) != 5:
                continue
            source, target = node.input[0], node.output[0]
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Conv":
                pad = attributes["pads"][axis]
                self.held[target] = self.balanced(target)
                self.read(source, [{r - pad + k for r in have for k in range(3)}
                                   for have in self.held[target]])  # fmt: skip
            elif node.op_type == "Slice":
                shift = self.rows(source) - self.rows(target)
                self.held[target] = self.balanced(target)
                if shift == 0:  # along another axis
                    self.held[target] = self.held[source]
                else:
                    self.read(source, [{r + shift for r in have} for have in self.held[target]])
            elif node.op_type == "Resize":
                scale = self.rows(target) // self.rows(source)
                self.held[target] = [
                    {scale * row + i for row in have for i in range(scale)}
                    for have in self.held[source]
                ]
            else:
                split = [name for name in node.input if name in self.held]
                if split:
                    self.held[target] = self.held[split[0]]
        return self.bytes


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("ranks", RANKS)
def test_halos_move_what_ranks_lack_and_nothing_else(tutti, tmp_path, ranks, dimension):
    sizes = SIZES | {"frames": 5, "height": 12, "width": 16}
    report = compiled(tutti, tmp_path, ranks, dimension, sizes)
    kinds = [exchange["kind"] for exchange in report["exchanges"]]
    assert kinds.count("AllGather") == 1  # of the frames
    assert set(kinds) == {"Halo", "AllGather"}
    moved = sum(e["bytes"] for e in report["exchanges"] if e["kind"] == "Halo")
    assert moved == RowCounter(DIMENSIONS[dimension], ranks, sizes).count()
