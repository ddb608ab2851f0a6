"""Predicts forwards on more cards than were lent since the kernels changed, from records that were measured.

    python bench/measurements/predict.py        adds to docs/measurements.json; then run records.py

One rank as it is now, class by class of kernel, shared out among N; each class by as much slower than its share as it
was on two cards when those were measured, with the kernels of then. An exchange takes as long as its bytes do at the rate of then: a
rank sends 1 / N of all, but to N - 1 others. Labelled as what it is.
"""

import datetime
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measurements import records
from measurements.records import FORWARD, record

EARLIER = f"{FORWARD}, attention through cuDNN"
EXCHANGES = "exchanges"
RANKS = (2, 4, 8)


def find(told, name, ranks):
    """The newest record of a forward at as many ranks as cards, with its breakdown."""
    found = [
        r for r in told
        if r["name"] == name and r["ranks"] == ranks and r.get("cards", ranks) == ranks and r.get("breakdown_s")
    ]  # fmt: skip
    if not found:
        raise SystemExit(f"no record '{name}' of {ranks} ranks with a breakdown")
    return max(found, key=lambda r: r["date"])


def predicted_seconds(now, one, two, ranks):
    """now, one, two: seconds by class of kernel of one rank as it is, and of one and two ranks in an earlier run."""
    total = 0.0
    for name, seconds in now.items():
        slower = 2 * two.get(name, 0) / one[name] if one.get(name) else 1
        total += seconds / ranks * max(slower, 1)
    sent = lambda n: (n - 1) / n / n
    return total + two.get(EXCHANGES, 0) * sent(ranks) / sent(2)


def predictions(told):
    now, one, two = find(told, FORWARD, 1), find(told, EARLIER, 1), find(told, EARLIER, 2)
    for ranks in RANKS:
        seconds = predicted_seconds(
            now["breakdown_s"], one["breakdown_s"], two["breakdown_s"], ranks
        )
        yield record(
            name=f"PREDICTION, not measured: {FORWARD}", shape=now["shape"], card=now["card"], ranks=ranks,
            cards=ranks, dtype=now["dtype"], ours_s=round(seconds, 4), peer="our own one rank, measured",
            peer_s=now["ours_s"], versions=now["versions"], date=datetime.date.today().isoformat(),
            command="bench/measurements/predict.py, from one rank now and two cards earlier",
        )  # fmt: skip


def main():
    told = records.read()
    told["records"] = records.merge(told["records"], list(predictions(told["records"])))
    records.write(told)


if __name__ == "__main__":
    main()
