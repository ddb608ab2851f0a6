"""Rewrites what ONNX has no operator for, by running an exported program once more and tracing it.

Complex tensors become pairs of reals (`complex_pairs.py`), flex attention becomes attention with a mask (`flex_attention.py`).
Factorisations of weights are computed now.
"""

from __future__ import annotations

from typing import Any

import torch
from tutti.export.complex_pairs import MAKERS, REAL_OF, RULES, Pair, paired
from tutti.export.flex_attention import dense_attention, drop_blocks, operator_name

# Operators without a counterpart in ONNX that models apply to weights.
OF_WEIGHTS = ("linalg_qr", "linalg_svd", "linalg_eigh", "linalg_inv", "linalg_cholesky")
REWRITTEN = (*OF_WEIGHTS, "flex_attention")


def is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_complex()


def needs_rewrite(program: torch.export.ExportedProgram) -> bool:
    return any(
        is_complex(node.meta.get("val"))
        or (node.op == "call_function" and operator_name(node.target) in REWRITTEN)
        or is_symbolic_split(node)
        for node in program.graph.nodes
    )


def is_symbolic_split(node: torch.fx.Node) -> bool:
    """A split whose sizes are no numbers: as ONNX it would be a sequence of tensors."""
    if node.op != "call_function" or operator_name(node.target) != "split_with_sizes":
        return False
    return any(isinstance(size, torch.fx.Node) for size in node.args[1])


def split_by_slices(x: torch.Tensor, sizes: list[Any], dim: int = 0) -> list[torch.Tensor]:
    """torch.split_with_sizes."""
    start, parts = 0, []
    for size in sizes:
        parts.append(x.narrow(dim, start, size))
        start = start + size
    return parts


def drop_idle_squeezes(program: torch.export.ExportedProgram) -> None:
    """PyTorch squeezes a dimension that is not 1 into itself; ONNX calls that an error."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in SQUEEZES:
            continue
        shape = node.args[0].meta["val"].shape
        axes = node.args[1] if isinstance(node.args[1], list | tuple) else [node.args[1]]
        if all(isinstance(shape[axis], int) and shape[axis] != 1 for axis in axes):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


SQUEEZES = (torch.ops.aten.squeeze.dim, torch.ops.aten.squeeze.dims)


class RewrittenProgram(torch.nn.Module):
    """Runs an exported program in operators that ONNX has; its inputs and outputs must be real."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        self.program = program.module()
        self.kinds: set[str] = set()
        self._compute_factorisations()
        drop_blocks(self.program.graph)
        self.program.recompile()

    def forward(self, *tensors: torch.Tensor) -> Any:
        return PairInterpreter(self.program, self.kinds).run(*tensors)

    def _compute_factorisations(self) -> None:
        """Replaces each result of an operator of OF_WEIGHTS by a constant."""
        graph = self.program.graph
        for node in list(graph.nodes):
            if node.op != "call_function" or operator_name(node.target) not in OF_WEIGHTS:
                continue
            results = self._value(node)
            for user in list(node.users):
                name = f"{node.name}_{user.args[1]}_of_weights"
                self.program.register_buffer(name, results[user.args[1]].detach().clone())
                with graph.inserting_before(user):
                    user.replace_all_uses_with(graph.get_attr(name))
                graph.erase_node(user)
            graph.erase_node(node)
            self.kinds.add("factorisations of weights became constants")

    def _value(self, node: torch.fx.Node) -> Any:
        """What a node that depends on weights alone is worth."""
        if node.op == "get_attr":
            value: Any = self.program
            for part in str(node.target).split("."):
                value = getattr(value, part)
            return value
        if node.op != "call_function":
            raise NotImplementedError(f"{node.name} of what is no weight")
        args = torch.fx.map_arg(node.args, self._value)
        return node.target(*args, **torch.fx.map_arg(node.kwargs, self._value))


class PairInterpreter(torch.fx.Interpreter):
    """Runs a graph with a Pair for each complex tensor."""

    def __init__(self, module: torch.fx.GraphModule, kinds: set[str]) -> None:
        super().__init__(module)
        self._kinds = kinds

    def get_attr(self, target: str, args: Any, kwargs: Any) -> Any:
        return paired(super().get_attr(target, args, kwargs))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        name = operator_name(target)
        if name == "wrap_with_autocast":
            # Its mode, then the graph under it and that graph's arguments.
            return PairInterpreter(args[4], self._kinds).run(*args[5:])
        if name == "flex_attention":
            self._kinds.add("flex attention became attention with a mask")
            return dense_attention(*args, **kwargs)
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        if name == "split_with_sizes" and any(isinstance(x, torch.SymInt) for x in leaves):
            self._kinds.add("splits of symbolic sizes became slices")
            x, *rest = args
            parts = split_by_slices(x.parts if isinstance(x, Pair) else x, *rest)
            return [Pair(part) for part in parts] if isinstance(x, Pair) else parts
        if name in MAKERS:
            self._kinds.add("complex numbers became pairs of reals")
            return MAKERS[name](*args, **kwargs)
        if name == "zeros" and kwargs.get("dtype") in REAL_OF:
            real = torch.zeros([*args[0], 2], dtype=REAL_OF[kwargs["dtype"]])
            return Pair(real)
        if not any(isinstance(value, Pair) for value in leaves):
            return paired(super().call_function(target, args, kwargs))
        if name not in RULES:
            raise NotImplementedError(f"aten.{name} of complex numbers")
        return RULES[name](super().call_function, target, *args, **kwargs)
