"""The records of docs/measurements.json, and the part of docs/measurements.md and the charts that are written from them.

    python bench/measurements/records.py            writes docs/measurements.md and docs/charts/*.svg
    python bench/measurements/records.py --check    says what is not up to date, with exit code 1

A record: name, card, ranks, dtype, ours_s, peer, peer_s, ratio (ours_s / peer_s), versions, command, date; peer, peer_s
and ratio are null where nobody raced. Besides, where known: shape, cards (1 where ranks share it), spread_s [min, max],
flops, breakdown_s (seconds of rank 0 by class of kernel), note.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measurements import serving
from measurements.charts import scaling_charts

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs/measurements.json"
PAGE = ROOT / "docs/measurements.md"
CHARTS = ROOT / "docs/charts"
BEGIN = "<!-- From measurements.json by bench/measurements/records.py: -->"
END = "<!-- end -->"
REQUIRED = (
    "name", "card", "ranks", "dtype", "ours_s", "peer", "peer_s", "ratio", "versions", "command", "date",
)  # fmt: skip
KEY = ("name", "shape", "card", "ranks", "cards", "dtype", "peer")
FORWARD = "cosmos-shape, one forward"


def record(**fields):
    """With the ratio filled in; a missing required field is an error."""
    fields = {"peer": None, "peer_s": None, "ratio": None} | fields
    if fields["peer_s"]:
        fields["ratio"] = round(fields["ours_s"] / fields["peer_s"], 4)
    missing = [key for key in REQUIRED if key not in fields]
    if missing:
        raise ValueError(f"record '{fields.get('name')}' lacks {', '.join(missing)}")
    return fields


def merge(records, new):
    """New records take the place of those that measured the same."""
    key = lambda r: tuple(json.dumps(r.get(k)) for k in KEY)
    fresh = {key(r): r for r in new}
    kept = [fresh.pop(key(r), r) for r in records]
    return kept + list(fresh.values())


def seconds(value):
    if value is None:
        return ""
    return f"{value:.3f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def row(r):
    spread = r.get("spread_s")
    ours = seconds(r["ours_s"]) + (
        f" ({seconds(spread[0])} to {seconds(spread[1])})" if spread else ""
    )
    if r.get("flops"):
        ours += f", {r['flops'] / r['ours_s'] / 1e12:.0f} TFLOP/s"
    cards = r.get("cards", r["ranks"])
    ranks = f"{r['ranks']}" + (
        f" on {cards} card{'s' * (cards > 1)}" if cards != r["ranks"] else ""
    )
    name = ", ".join(filter(None, (r["name"], r.get("shape"))))
    peer = f"{r['peer']}: {seconds(r['peer_s'])}" if r["peer"] else ""
    ratio = f"**{r['ratio']:.3f}**" if r["ratio"] is not None else ""
    cells = (name, r["dtype"], ranks, ours, peer, ratio, f"`{r['command']}`")
    return "| " + " | ".join(cells) + " |"


def setting(r):
    versions = ", ".join(f"{k} {v}" for k, v in sorted(r["versions"].items()))
    return f"{r['card']}; {versions}; {r['date']}"


def breakdown(records):
    """Where a forward goes, by class of kernel: the newest record that says so."""
    told = [r for r in records if r.get("breakdown_s")]
    if not told:
        return []
    lines = ["", "Rank 0 by class of kernel, in milliseconds:", ""]
    classes = sorted({c for r in told for c in r["breakdown_s"]})
    lines.append("| what | ranks | " + " | ".join(classes) + " |")
    lines.append("| --- | --- |" + " --- |" * len(classes))
    seen = set()
    for r in told:
        key = (r["name"], r.get("shape"), r["ranks"], r.get("cards"), r["dtype"])
        if key in seen:
            continue
        seen.add(key)
        cells = [f"{r['breakdown_s'].get(c, 0) * 1e3:.1f}" for c in classes]
        name = ", ".join(filter(None, (r["name"], r.get("shape"), r["dtype"])))
        lines.append(f"| {name} | {r['ranks']} | " + " | ".join(cells) + " |")
    return lines


def section(records, charts):
    """Markdown lines of all records, grouped by card and versions."""
    lines = []
    settings = {}
    for r in records:
        settings.setdefault(setting(r), []).append(r)
    for name, group in settings.items():
        lines += ["", name, "", "| what | type | ranks | ours | peer | ratio | command |"]
        lines += ["| --- | --- | --- | --- | --- | --- | --- |"] + [row(r) for r in group]
        lines += [f"\n{r['name']}: {r['note']}" for r in group if r.get("note")]
    lines += breakdown(records)
    lines += [""] + [f"![{title}](charts/{file})" for file, title, _ in charts]
    return lines


def rewrite(page, lines, begin=BEGIN, end=END):
    head, rest = page.split(begin)
    tail = rest.split(end)[1]
    return head + begin + "\n".join(lines).rstrip() + "\n\n" + end + tail


def files(told):
    """Path -> text of everything that is written from what docs/measurements.json tells."""
    records = told["records"]
    charts = scaling_charts([r for r in records if r["name"] == scaled(records)])
    out = {CHARTS / file: text for file, _, text in charts}
    out |= {CHARTS / file: text for file, text in serving.charts(told).items()}
    page = rewrite(PAGE.read_text(), section(records, charts))
    out[PAGE] = rewrite(page, serving.lines(told), serving.BEGIN, serving.END)
    return out


def scaled(records):
    """The name of the records whose charts are drawn: those of our kernels now, or of an earlier state, which alone
    ran on several cards. Speed-ups are of one state."""
    names = [FORWARD, f"{FORWARD}, attention through cuDNN"]
    counts = [
        {
            r["ranks"]
            for r in records
            if r["name"] == name and r.get("cards", r["ranks"]) == r["ranks"]
        }
        for name in names
    ]
    return names[0] if len(counts[0]) >= len(counts[1]) else names[1]


def read():
    """records, and what bench/soak.py and bench/grpc_load.py have measured: soaks, loads."""
    return json.loads(RECORDS.read_text())


def write(told):
    RECORDS.write_text(json.dumps(told, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--add", nargs="*", default=[], help="JSON files with records to merge in")
    options = parser.parse_args()
    told = read()
    for path in options.add:
        new = json.loads(Path(path).read_text())
        fresh = [record(**r) for r in new.get("records", [])]
        told["records"] = merge(told["records"], fresh)
        told |= {kind: new[kind] for kind in ("soaks", "loads") if kind in new}
    if options.add:
        write(told)
    stale = {p: text for p, text in files(told).items() if not p.exists() or p.read_text() != text}
    if options.check:
        for path in stale:
            print(
                f"{path.relative_to(ROOT)} is not what bench/measurements/records.py writes",
                file=sys.stderr,
            )
        return 1 if stale else 0
    CHARTS.mkdir(exist_ok=True)
    for path, text in stale.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
