"""docs/compatibility.{md,json}: what each call of a foreign client or program came to.

TUTTI_WRITE_COMPATIBILITY=1 writes the rows of a run; without it they are compared with those that are there.
"""

import json
import os

from serving import ROOT

TABLE = ROOT / "docs" / "compatibility.json"
PAGE = ROOT / "docs" / "compatibility.md"
HEAD = """# Compatibility with Triton's clients

Every public call of `tritonclient` 2.73, and runs of the load generators that people use with Triton, asked of a running
server by `tests/protocol/test_clients.py` and `test_tools.py`, which wrote this page (`TUTTI_WRITE_COMPATIBILITY=1`) and
compare it with each later run. The same as data: `compatibility.json`.

| client | call | status | note |
| --- | --- | --- | --- |
"""


def row(client, call, status="works", note=""):
    return {"client": client, "call": call, "status": status, "note": note}


def markdown(entries):
    lines = [f"| {e['client']} | `{e['call']}` | {e['status']} | {e['note']} |" for e in entries]
    return HEAD + "\n".join(lines) + "\n"


def check(rows):
    """`rows` are all that there is to say about their clients; what is said of others stays."""
    clients = {entry["client"] for entry in rows}
    others = [e for e in json.loads(TABLE.read_text()) if e["client"] not in clients]
    entries = sorted([*others, *rows], key=lambda e: (e["client"], e["call"]))
    for path, text in ((TABLE, json.dumps(entries, indent=1) + "\n"), (PAGE, markdown(entries))):
        if os.environ.get("TUTTI_WRITE_COMPATIBILITY"):
            path.write_text(text)
        assert path.read_text() == text
