"""Writes PyTorch's flex attention, which ONNX does not have, as attention with a dense mask.

`flex_attention(query, key, value, score_mod, block_mask, ...)` calls a function of (batch, head, query, key) for each score. Here the
functions run once over index tensors that broadcast to all scores (they are pointwise, and index buffers), which is what
PyTorch's own reference implementation computes (torch._higher_order_ops.flex_attention.math_attention).
"""

from __future__ import annotations

from typing import Any

import torch


def drop_blocks(graph: torch.fx.Graph) -> None:
    """Takes the lists of blocks from the masks, and with them what computes those: a mask's function says it all."""
    nodes = [n for n in graph.nodes if operator_name(n.target) == "flex_attention"]
    for node in nodes:
        *blocks, mask_mod = node.args[4]
        node.args = (*node.args[:4], (*[None] * len(blocks), mask_mod), *node.args[5:])
    if nodes:
        graph.eliminate_dead_code(is_impure_node=_has_effect)


def _has_effect(node: torch.fx.Node) -> bool:
    """Of checks of what nobody uses, and of writes into new tensors that nobody looks at afterwards, none matters."""
    if node.op != "call_function":
        return node.is_impure()
    name = operator_name(node.target)
    if name == "index_put_" and operator_name(node.args[0].target).startswith("new_"):
        return any(node < user for user in node.args[0].users)
    return not name.startswith("_assert") and node.is_impure()


def operator_name(target: Any) -> str:
    """`mul` of aten.mul.Tensor."""
    return getattr(getattr(target, "overloadpacket", target), "__name__", str(target))


class OverAllScores(torch.fx.Interpreter):
    """Runs a mask or score function on index tensors of one dimension each."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if operator_name(target) == "flat_apply":
            # x[i, j] is an opaque function in these graphs: (function, its structure, its name, x, i, j).
            x, *places = [a for a in args if isinstance(a, torch.Tensor)]
            return x[tuple(places)]
        return super().call_function(target, args, kwargs)


def dense_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: torch.fx.GraphModule,
    block_mask: tuple,
    scale: float,
    kernel_options: dict[str, Any],
    score_buffers: tuple = (),
    mask_buffers: tuple = (),
) -> tuple[torch.Tensor, None, None]:
    """The results of flex attention; what it says of its scores besides is left out.

    Raises NotImplementedError for a block mask that no function describes: PyTorch computes
    that one densely unless compiled, so there is no answer to be equal to.
    """
    if not _is_plain(score_mod):
        raise NotImplementedError("flex attention with a function of scores")
    mask_mod = block_mask[-1]
    if not _asks_for_places(mask_mod):
        raise NotImplementedError("flex attention over blocks that no mask function describes")
    mask = OverAllScores(mask_mod).run(*_places(query, key), *mask_buffers)
    result = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1]
    )
    return result, None, None


def _places(query: torch.Tensor, key: torch.Tensor) -> list[torch.Tensor]:
    sizes = (*query.shape[:3], key.shape[2])
    return [
        torch.arange(size).reshape([-1 if axis == i else 1 for axis in range(4)])
        for i, size in enumerate(sizes)
    ]


def _is_plain(score_mod: torch.fx.GraphModule) -> bool:
    """Whether a function of scores returns them as they are."""
    first, *_, last = score_mod.graph.nodes
    return last.args[0] is first


def _asks_for_places(mask_mod: torch.fx.GraphModule) -> bool:
    """Whether a mask depends on queries or keys."""
    _, _, query, key, *_ = mask_mod.graph.find_nodes(op="placeholder")
    return bool(query.users or key.users)
