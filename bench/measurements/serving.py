"""The part of docs/measurements.md that says how the server did under load and over an hour, and its chart.

Of docs/measurements.json: "soaks" (bench/soak.py) and "loads" (bench/grpc_load.py); the newest of each counts.
"""

from measurements.charts import COLOURS, Plot

BEGIN = "<!-- Serving, from measurements.json by bench/measurements/records.py: -->"
END = "<!-- end of serving -->"
CHART = "soak.svg"
TICKS = 12


def megabytes(count):
    return f"{count / 1e6:.1f} MB"


def soak_lines(soak):
    readings = soak["resident_bytes"]
    step = max(len(readings) // 6, 1)
    shown = list(range(0, len(readings), step))
    return [
        "",
        f"Memory of a server that answered {soak['requests']:,} requests of every kind in {soak['minutes']} minutes (unary, "
        "streams, HTTP, shared memory, cancelled, bad, reloads, clients that leave): "
        f"**{megabytes(soak['growth_bytes'])}** between the lowest and the highest reading after the first sixth (bar: 20 MB), "
        f"{soak['server_cpu_s']:.0f} s of CPU time. `{soak['command']}`, {soak['date']}",
        "",
        "| minute | " + " | ".join(str(i) for i in shown) + " |",
        "| --- |" + " --- |" * len(shown),
        "| resident | " + " | ".join(megabytes(readings[i]) for i in shown) + " |",
        "",
        f"![Resident memory by minute](charts/{CHART})",
    ]


def load_lines(load):
    lines = [
        "",
        f"A tiny identity plan over {load['connections']} gRPC connections, in turns with a bare gRPC server in C++ on the same "
        f"cores, which the client shares: **{load['ratio']:.2f}** of its requests a second (bar: 0.7; "
        f"{min(load['ratios']):.2f} to {max(load['ratios']):.2f} over the turns). `{load['command']}`, {load['date']}"
        + (f"; {load['note']}" if load.get("note") else ""),
        "",
        "| run | server | requests a second | p50 | p99 | server's CPU a request |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    kinds = {
        "full": "every connection always asks",
        "paced": f"{load['paced_rate']:,.0f} requests a second",
    }
    for kind, name in kinds.items():
        for side, server in (("ours", "Tutti"), ("echo", "bare")):
            run = load[f"{kind}_{side}"]
            lines.append(
                f"| {name} | {server} | {run['rate']:,.0f} | {run['p50_us'] / 1e3:.2f} ms | {run['p99_us'] / 1e3:.2f} ms | "
                f"{run['cpu_us']:.0f} us |"
            )
    return lines


def lines(told):
    out = []
    if told.get("loads"):
        out += load_lines(told["loads"][-1])
    if told.get("soaks"):
        out += soak_lines(told["soaks"][-1])
    return out


def charts(told):
    """File name -> SVG text."""
    if not told.get("soaks"):
        return {}
    readings = told["soaks"][-1]["resident_bytes"]
    xs = list(range(0, len(readings), max(len(readings) // TICKS, 1)))
    plot = Plot("Resident memory of the server, MB, by minute", xs, max(readings) / 1e6, " MB")
    plot.line([(x, readings[x] / 1e6) for x in xs], COLOURS[0], "resident", 0)
    return {CHART: plot.text()}
