"""Charts of scaling as SVG text, without a plotting library."""

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 560, 320, 60, 40, 36
COLOURS = ("#1f6feb", "#d1242f", "#9a6700", "#1a7f37", "#8250df", "#57606a")
IDEAL = "#8c959f"


class Plot:
    def __init__(self, title, xs, top, unit):
        self.xs, self.top = xs, top
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
        ]
        for i in range(5):
            value = top * i / 4
            y = self.y(value)
            self.parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d0d7de"/>'
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}{unit}</text>'
            )
        for x in xs:
            self.parts.append(
                f'<text x="{self.x(x):.1f}" y="{HEIGHT - 16}" text-anchor="middle">{x}</text>'
            )

    def x(self, value):
        step = (WIDTH - LEFT - 20) / max(len(self.xs), 1)
        return LEFT + step * (self.xs.index(value) + 0.5)

    def y(self, value):
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / self.top

    def line(self, points, colour, name, order, dashes=""):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        for x, y in points:
            self.parts.append(
                f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3" fill="{colour}"/>'
            )
        self.legend(colour, name, order)

    def bar(self, x, low, high, colour):
        width = (WIDTH - LEFT - 20) / len(self.xs) * 0.5
        self.parts.append(
            f'<rect x="{self.x(x) - width / 2:.1f}" y="{self.y(high):.1f}" width="{width:.1f}" '
            f'height="{self.y(low) - self.y(high):.1f}" fill="{colour}"/>'
        )

    def legend(self, colour, name, order):
        y = TOP + 14 * order
        self.parts.append(
            f'<rect x="{WIDTH - 180}" y="{y - 8}" width="10" height="10" fill="{colour}"/>'
            f'<text x="{WIDTH - 165}" y="{y + 1}">{name}</text>'
        )

    def text(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def curves(records):
    """Name -> {ranks: seconds}; ours first."""
    found = {"Tutti": {}}
    for r in records:
        found["Tutti"][r["ranks"]] = r["ours_s"]
        if r["peer"]:
            found.setdefault(r["peer"], {})[r["ranks"]] = r["peer_s"]
    return found


def latency(found, xs):
    plot = Plot(
        "One forward, seconds, by ranks", xs, max(max(c.values()) for c in found.values()), " s"
    )
    for i, (name, curve) in enumerate(found.items()):
        plot.line(sorted(curve.items()), COLOURS[i % len(COLOURS)], name, i)
    return plot.text()


def speed_up(found, xs):
    plot = Plot("Speed-up over the same program's one rank", xs, max(xs), "x")
    plot.line([(x, x) for x in xs], IDEAL, "ideal", 0, "4 3")
    for i, (name, curve) in enumerate(found.items()):
        if 1 in curve:
            points = [(x, curve[1] / s) for x, s in sorted(curve.items())]
            plot.line(points, COLOURS[i % len(COLOURS)], name, i + 1)
    return plot.text()


def breakdown(records, xs):
    told = {r["ranks"]: r["breakdown_s"] for r in records if r.get("breakdown_s")}
    xs = [x for x in xs if x in told]
    classes = sorted({c for b in told.values() for c in b})
    plot = Plot(
        "Rank 0 by class of kernel, seconds", xs, max(sum(b.values()) for b in told.values()), " s"
    )
    for x in xs:
        low = 0
        for i, name in enumerate(classes):
            high = low + told[x].get(name, 0)
            plot.bar(x, low, high, COLOURS[i % len(COLOURS)])
            low = high
    for i, name in enumerate(classes):
        plot.legend(COLOURS[i % len(COLOURS)], name, i)
    return plot.text()


def scaling_charts(records):
    """(file, title, SVG text) of what the records of one workload, a card a rank, can show."""
    records = [r for r in records if r.get("cards", r["ranks"]) == r["ranks"]]
    found = curves(records)
    xs = sorted({x for curve in found.values() for x in curve})
    charts = []
    if len(xs) > 1:
        charts.append(("latency.svg", "Seconds of one forward", latency(found, xs)))
        charts.append(("speed_up.svg", "Speed-up by ranks", speed_up(found, xs)))
    if any(r.get("breakdown_s") for r in records):
        charts.append(("breakdown.svg", "Where a forward goes", breakdown(records, xs)))
    return charts
