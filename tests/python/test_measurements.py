"""docs/measurements.md and the charts are what bench/measurements writes from docs/measurements.json."""

import xml.dom.minidom

import pytest
from measurements import charts, predict, records, serving


def forward(ranks, ours_s, peer="torch-compile", peer_s=1.0, **others):
    fields = {
        "name": records.FORWARD, "card": "A card", "ranks": ranks, "dtype": "bf16", "ours_s": ours_s,
        "peer": peer, "peer_s": peer_s, "versions": {"driver": "1"}, "command": "tutti bench",
        "date": "2026-01-02",
    }  # fmt: skip
    return records.record(**(fields | others))


def test_the_page_and_the_charts_are_up_to_date():
    for path, text in records.files(records.read()).items():
        assert path.read_text() == text, f"run bench/measurements/records.py: {path} is stale"


def test_every_record_has_what_is_required():
    for record in records.read()["records"]:
        assert records.record(**record) == record


def test_a_record_has_the_ratio_of_both_times():
    assert forward(1, 2.7, peer_s=3.0)["ratio"] == 0.9
    with pytest.raises(ValueError, match="record 'x' lacks card, ranks"):
        records.record(name="x")


def test_what_measured_the_same_is_replaced_in_its_place():
    old = [forward(1, 3.0), forward(2, 1.6), forward(1, 3.0, peer="torch-eager")]
    merged = records.merge(old, [forward(1, 2.5), forward(4, 0.8)])
    assert [(r["ranks"], r["peer"], r["ours_s"]) for r in merged] == [
        (1, "torch-compile", 2.5),
        (2, "torch-compile", 1.6),
        (1, "torch-eager", 3.0),
        (4, "torch-compile", 0.8),
    ]


def test_a_prediction_slows_classes_as_two_cards_did_and_counts_what_ranks_send():
    now = {"attention": 1.6, "products": 0.8}
    one = {"attention": 2.0, "products": 0.8}
    two = {"attention": 1.1, "products": 0.4, "exchanges": 0.08}
    # Attention was 10 % slower than its share; of the exchanges, ranks send 1/4, 3/16, 7/64.
    assert predict.predicted_seconds(now, one, two, 2) == pytest.approx(0.88 + 0.4 + 0.08)
    assert predict.predicted_seconds(now, one, two, 4) == pytest.approx(0.44 + 0.2 + 0.06)
    assert predict.predicted_seconds(now, one, two, 8) == pytest.approx(0.22 + 0.1 + 0.035)


def test_rows_say_times_ratio_and_shared_cards():
    text = records.row(forward(2, 0.5, peer_s=2.0, cards=1, spread_s=[0.4, 0.6], flops=1e12))
    assert (
        "| 2 on 1 card | 500 ms (400 ms to 600 ms), 2 TFLOP/s | torch-compile: 2.000 s | **0.250** |"
        in text
    )


def test_only_what_stands_between_the_marks_is_rewritten():
    page = f"before\n{records.BEGIN}\nold\n{records.END}\nafter\n"
    assert (
        records.rewrite(page, ["", "new"])
        == f"before\n{records.BEGIN}\nnew\n\n{records.END}\nafter\n"
    )


def test_serving_tells_memory_and_load():
    side = {"rate": 9000, "p50_us": 1500, "p99_us": 4000, "cpu_us": 50}
    load = {"connections": 256, "ratio": 0.8, "ratios": [0.75, 0.85], "command": "c", "date": "d"}
    load |= {"paced_rate": 10000, "full_ours": side, "full_echo": side}
    load |= {"paced_ours": side, "paced_echo": side | {"p99_us": 2000}}
    soak = {"minutes": 3, "requests": 4500, "resident_bytes": [60e6, 65e6, 66e6, 65.5e6]}
    soak |= {"growth_bytes": 1e6, "server_cpu_s": 3, "command": "c", "date": "d"}
    text = "\n".join(serving.lines({"loads": [load], "soaks": [soak]}))
    assert "**0.80** of its requests a second" in text
    assert "| 10,000 requests a second | bare | 9,000 | 1.50 ms | 2.00 ms | 50 us |" in text
    assert "| resident | 60.0 MB | 65.0 MB | 66.0 MB | 65.5 MB |" in text
    (chart,) = serving.charts({"soaks": [soak]}).values()
    xml.dom.minidom.parseString(chart)
    assert serving.lines({}) == [] and serving.charts({}) == {}


def test_charts_of_scaling():
    told = [
        forward(1, 2.8, peer_s=3.2, breakdown_s={"attention": 2.0, "products": 0.8}),
        forward(2, 1.4, peer_s=1.7, breakdown_s={"attention": 1.0, "products": 0.4}),
        forward(2, 2.9, cards=1),  # shares the card: says nothing about scaling
    ]
    made = {file: text for file, _, text in charts.scaling_charts(told)}
    assert sorted(made) == ["breakdown.svg", "latency.svg", "speed_up.svg"]
    for text in made.values():
        xml.dom.minidom.parseString(text)
    # Ours at two ranks is twice as fast as at one: on the ideal line, at the same height.
    lines = [
        node.getAttribute("points").split()
        for node in xml.dom.minidom.parseString(made["speed_up.svg"]).getElementsByTagName(
            "polyline"
        )
    ]
    ideal, ours, theirs = lines
    assert ours == ideal
    assert float(theirs[1].split(",")[1]) > float(ideal[1].split(",")[1])
    assert charts.scaling_charts(told[:1])[0][0] == "breakdown.svg"
