"""What an exchange is for, and why a plan's bytes are not the least."""

import pytest
from exchange_check import check_exchanges
from exchange_minimum import Premises, least_exchange
from pair_calls import PairCall
from plan_exchanges import exchanges_of
from position_calls import PositionCalls
from position_minimum import least_over_positions
from test_exchange_minimum import call

TEXT = """graph @main (%x: f32[1, 8, 16], %mask: bool[1, 1, 8, 8]) {
  %w = constant f32[16, 16] data
  %q: f32[1, part(8,2,rank.cp), 2, 8] = Reshape(%x) {shape = dims[1]} @q
  %q/1, %k/1, %v/1 = Unknown(%q)
  %q/2: f32[1, 8, 1, 8], %k/2: f32[1, 8, 1, 8] = AllToAll(%q, %q) {axis = "cp"} @heads
  %k/3: f32[1, 8, 1, 8] = Transpose(%k/2) {perm = [0, 1, 2, 3]} @t
  %mask/2: bool[1, 1, 8, 8] = AllGather(%mask) {axis = "cp"} @mask
  %a: f32[1, 8, 1, 8] = Attention(%q/2, %k/3, %k/3, %mask/2) {scale = 1.0} @a
  %b: f32[1, part(8,2,rank.cp), 2, 8] = AllToAll(%a) {axis = "cp"} @back
  %c: f32[1, part(8,2,rank.cp), 16] = Pointwise(%b) {body = graph (%v0: f32[]) {
    %v1: f32[] = AllGather(%v0) @inner
    return %v1
  }} @c
  %y: f32[1, 8, 16] = AllGather(%c) {axis = "cp"} @last
  %z: f32[1, 8, 16] = Linear(%y, %w) @z
  return %z
}
"""


def report(*kinds):
    return {"exchanges": [{"kind": k, "bytes": 10, "in_prologue": False} for k in kinds]}


def test_exchanges_are_told_apart_by_what_uses_them():
    found = exchanges_of(
        report("AllToAll", "AllGather", "AllToAll", "AllGather"), TEXT, {"AllToAll", "AllGather"}
    )
    assert [e["for"] for e in found] == ["attention", "other", "attention", "output"]
    assert found[0]["attentions"] == ["a"]
    assert (found[1]["serves"], found[1]["tensors"]) == (["Attention"], ["bool[1, 1, 8, 8]"])


CONTEXT = """graph @main (%x: f32[1, 8, 16], %q: f32[1, 8, 2, 8]) {
  %w = constant f32[16, 16] data
  %c: f32[1, 8, 16] = AllGather(%x) {axis = "cp"} @gather
  %k: f32[1, 8, 16] = Linear(%c, %w) @k
  %v: f32[1, 8, 16] = Linear(%c, %w) @v
  %kh: f32[1, 8, 2, 8] = Reshape(%k) {shape = dims[1]} @kh
  %vh: f32[1, 8, 2, 8] = Reshape(%v) {shape = dims[1]} @vh
  %a: f32[1, 8, 2, 8] = Attention(%q, %kh, %vh) {scale = 1.0} @a
  %b: f32[1, 8, 2, 8] = Attention(QUERY, %vh, %kh) {scale = 1.0} @b
  return %a, %b
}
"""


def test_a_gather_of_what_keys_and_values_alone_are_made_of_serves_attentions():
    (found,) = exchanges_of(report("AllGather"), CONTEXT.replace("QUERY", "%a"), {"AllGather"})
    assert (found["for"], found["attentions"]) == ("attention", ["a", "b"])
    (found,) = exchanges_of(report("AllGather"), CONTEXT.replace("QUERY", "%kh"), {"AllGather"})
    assert (found["for"], found["serves"]) == ("other", ["Linear"])


def test_a_text_that_does_not_match_the_list_is_an_error():
    with pytest.raises(RuntimeError, match="differ"):
        exchanges_of(report("AllToAll"), TEXT, {"AllToAll", "AllGather"})


def mesh(moved, *others, kind="AllToAll"):
    served = [{"kind": kind, "bytes": moved // 2, "for": "attention", "attentions": ["a"]}] * 2
    return {"exchanges": [*served, *others]}


OUTPUT = {"kind": "AllGather", "bytes": 300, "for": "output"}


def test_the_least_bytes_need_no_reason():
    least = least_exchange(call(40), 4).bytes
    found = check_exchanges([call(40)], (), 4, mesh(least, OUTPUT), 100)
    assert (found["exact"], found["reasons"]) == (True, [])
    assert (found["attentions"], found["exchanges_each"], found["bytes_to_least"]) == (1, 2.0, 1.0)


@pytest.mark.parametrize(
    "one, premises, reason",
    [
        (
            call(40, groups=2),
            Premises(way="heads"),
            "heads are exchanged where gathering keys would move less",
        ),
        (
            call(40, read=((0, 30),)),
            Premises(sends_unread_queries=True),
            "queries whose results nobody reads travel",
        ),
        (
            call(40, 48, moving=((8, 48),)),
            Premises(sends_steady_keys=True, way="heads"),
            "keys that do not change between steps travel",
        ),
    ],
)
def test_other_bytes_have_a_reason(one, premises, reason):
    moved = least_exchange(one, 2, premises=premises).bytes
    assert check_exchanges([one], (), 2, mesh(moved, OUTPUT), 300)["reasons"] == [reason]


def test_other_exchanges_and_a_wide_last_gather_are_named():
    least = least_exchange(call(40), 4).bytes
    other = {"kind": "AllReduce", "bytes": 8, "for": "other", "serves": ["MatMul"]}
    reasons = check_exchanges([call(40)], (), 4, mesh(least, other, OUTPUT), 50)["reasons"]
    assert reasons == ["1 AllReduce for MatMul", "the last gather moves 2 times the output"]


def test_a_transfer_may_serve_an_attention_and_pairs():
    positions = PositionCalls(40, pairs=(PairCall("outer", 6), PairCall("product", 8)))
    across = least_over_positions(positions, 4)
    assert across.exchanges == 3
    least = least_exchange(call(40), 4).bytes
    other = {"kind": "AllToAll", "bytes": across.bytes // 2, "for": "other", "serves": ["MatMul"]}
    both = mesh(least + across.bytes // 2, other, OUTPUT)
    assert check_exchanges([call(40)], (), 4, both, 100, positions)["exact"]
    more = mesh(least + across.bytes, other, OUTPUT)
    assert not check_exchanges([call(40)], (), 4, more, 100, positions)["exact"]


def test_bytes_that_nothing_explains_are_a_share():
    least = least_exchange(call(40), 4).bytes
    reasons = check_exchanges([call(40)], (), 4, mesh(2 * least), 100)["reasons"]
    assert reasons == ["100.0% more for attentions"]
