"""What each exchange of a plan is for, read off the plan's text (`tutti inspect plan --text`).

attention   brings queries, keys or values to an attention, or what nothing but keys and values are made of, or its results back
            to their ranks
output      brings an output of the model together, or the last thing that is in pieces before it
other       anything else
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

# Operators that only move elements.
MOVES = {"Reshape", "Transpose", "Concat", "Slice", "ShardSlice", "Split", "Expand", "Cast"}
ATTENTIONS = {"Attention", "RingAttention"}

NODE = re.compile(r"  (%.+?) = (\w+)(\(.*)")
VALUE = re.compile(r"%([^:,() ]+): (\w+\[(?:[^\[\]])*\])")
NAME = re.compile(r"@(\S+)\s*$")


@dataclass
class Node:
    type: str
    outputs: list[tuple[str, str]]  # name, type
    inputs: list[str]
    name: str = ""


@dataclass
class PlanGraph:
    nodes: list[Node] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)

    def makers(self) -> dict[str, Node]:
        return {name: node for node in self.nodes for name, _ in node.outputs}

    def users(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.inputs:
                found.setdefault(name, []).append(node)
        return found


def parse_graphs(text: str) -> list[PlanGraph]:
    """The prologue, if there is one, and the main graph. Bodies of pointwise nodes are left out."""
    graphs: list[PlanGraph] = []
    for line in text.splitlines():
        if line.startswith("graph @"):
            graphs.append(PlanGraph())
        elif line.startswith("  return "):
            graphs[-1].returned = re.findall(r"%([^, ]+)", line)
        elif (match := NODE.match(line)) and not line.startswith("    "):
            outputs, kind, rest = match.groups()
            inputs = re.findall(r"%([^:,() ]+)", _call(rest))
            named = NAME.search(rest)
            graphs[-1].nodes.append(
                Node(kind, VALUE.findall(outputs), inputs, named[1] if named else "")
            )
    return graphs


def _call(text: str) -> str:
    """What stands between the first pair of parentheses."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[: i + 1]
    return text


class Reader:
    """Answers what an exchange of one graph is for."""

    def __init__(self, graph: PlanGraph, kinds: set[str]) -> None:
        self._graph = graph
        self._kinds = kinds
        self._makers = graph.makers()
        self._users = graph.users()

    def purpose(self, exchange: Node) -> str:
        if self.attentions(exchange):
            return "attention"
        return "output" if self._is_last(exchange) else "other"

    def attentions(self, exchange: Node) -> set[str]:
        """The attentions that it brings queries, keys or values to or takes results from."""
        found: set[str] = set()
        for name, _ in exchange.outputs:
            found |= self._attentions_after(name, set())
        for name in exchange.inputs:
            found |= self._attentions_before(name, set())
        return found or self._attentions_made_of(exchange)

    def _attentions_made_of(self, exchange: Node) -> set[str]:
        """The attentions whose keys or values are made of what it brings; none if anything else is."""
        found: set[str] = set()
        for name, users in self._values_behind(exchange):
            if not users or name in self._graph.returned:
                return set()
            for user in users:
                if user.type in self._kinds and user.type not in ATTENTIONS:
                    return set()
                if user.type in ATTENTIONS:
                    if name not in user.inputs[1:3] or name in (user.inputs[:1] + user.inputs[3:]):
                        return set()
                    found.add(user.outputs[0][0])
        return found

    def _values_behind(self, exchange: Node) -> Iterator[tuple[str, list[Node]]]:
        """What is made of what it brings, up to attentions, each value with its users."""
        waiting = [name for name, _ in exchange.outputs]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            users = self._users.get(name, [])
            yield name, users
            for user in users:
                if user.type not in ATTENTIONS:
                    waiting += [output for output, _ in user.outputs]

    def _attentions_after(self, name: str, seen: set[str]) -> set[str]:
        found: set[str] = set()
        for user in self._users.get(name, []):
            if user.type in ATTENTIONS and name in user.inputs[:3]:
                found.add(user.outputs[0][0])
            elif user.type in MOVES and user.outputs[0][0] not in seen:
                for output, _ in user.outputs:
                    seen.add(output)
                    found |= self._attentions_after(output, seen)
        return found

    def _attentions_before(self, name: str, seen: set[str]) -> set[str]:
        maker = self._makers.get(name)
        if maker is None or name in seen:
            return set()
        seen.add(name)
        if maker.type in ATTENTIONS:
            return {maker.outputs[0][0]}
        if maker.type not in MOVES:
            return set()
        return set().union(*(self._attentions_before(i, seen) for i in maker.inputs), set())

    def _is_last(self, exchange: Node) -> bool:
        """A gather behind which nothing is in pieces any more."""
        seen: set[str] = set()
        for name, users in self._values_behind(exchange):
            seen.add(name)
            if any(user.type in {*self._kinds, "ShardSlice", *ATTENTIONS} for user in users):
                return False
        return exchange.type == "AllGather" and bool(seen & set(self._graph.returned))

    def serves(self, exchange: Node) -> list[str]:
        """The operators that use what it brings, behind moves."""
        found: set[str] = set()
        waiting = [name for name, _ in exchange.outputs]
        while waiting:
            for user in self._users.get(waiting.pop(), []):
                if user.type in MOVES:
                    waiting += [output for output, _ in user.outputs]
                else:
                    found.add(user.type)
        return sorted(found)


def exchanges_of(report: dict, text: str, kinds: Iterable[str]) -> list[dict]:
    """The report's exchanges, each with its purpose, the attentions it serves and the tensors it brings."""
    kinds = set(kinds)
    found = []
    for graph in parse_graphs(text):
        reader = Reader(graph, kinds)
        for node in graph.nodes:
            if node.type in kinds:
                found.append((reader, node))
    entries = report["exchanges"]
    if [node.type for _, node in found] != [entry["kind"] for entry in entries]:
        raise RuntimeError("the plan's text and its list of exchanges differ")
    result = []
    for (reader, node), entry in zip(found, entries, strict=True):
        purpose = reader.purpose(node)
        row = {"kind": node.type, "bytes": int(entry["bytes"]), "for": purpose}
        row["in_prologue"] = entry["in_prologue"]
        if purpose == "attention":
            row["attentions"] = sorted(reader.attentions(node))
        if purpose == "other":
            row |= {"tensors": [kind for _, kind in node.outputs], "serves": reader.serves(node)}
        result.append(row)
    return result
