"""The reference workload (bench/cosmos) on the GPUs of this machine: Tutti at 1, 2, 4, 8 ranks against PyTorch, in one run.

    python bench/scaling.py --work /tmp/scaling --report scaling.json
    python bench/measurements/records.py --add scaling.json        into docs/

Measured, in order of worth, until --seconds are over: one forward at each number of ranks that has cards; PyTorch's
(bench/peers) at the same numbers; exchanges apart from attention, by NCCL and by others; how far N ranks are from fp64, beside PyTorch's bf16; a pair of guidance branches with
cfg=2; the served call against the bare forward; the sample clips model. Needs PyTorch for the peers; what cannot run is
reported under "failures". Without a GPU: says so and does nothing.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from cosmos import inputs, weights
from cosmos.sizes import Sizes
from measurements.records import FORWARD, record

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
RANKS = (1, 2, 4, 8)
# Seconds a step may take at most, and those below which it is not begun.
STEP_SECONDS, LEAST_SECONDS = 150, 12


def cards():
    """Names of the GPUs, by index."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^GPU \d+: (.*?) \(", done.stdout, re.MULTILINE)


def driver():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=60)
    return done.stdout.split("\n")[0].strip()


class Run:
    """Steps with a common deadline; what fails is written down and passed over."""

    def __init__(self, options, found):
        self.options, self.found = options, found
        self.end = time.monotonic() + options.seconds
        self.work = Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.records, self.failures, self.raw = [], [], {}
        self.date = datetime.date.today().isoformat()
        self.driver = driver()

    def left(self):
        return self.end - time.monotonic()

    def step(self, name, command, limit=STEP_SECONDS, environment=None):
        """The command's stdout, or None."""
        limit = min(limit, self.left())
        if limit < LEAST_SECONDS:
            self.failures.append({"step": name, "why": "no time left"})
            return None
        command = list(map(str, command))
        begin = time.monotonic()
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, env=environment
            )
            why = None if done.returncode == 0 else done.stderr[-2000:] or f"exit {done.returncode}"
        except subprocess.TimeoutExpired:
            why = f"not ready after {limit:.0f} s"
        took = time.monotonic() - begin
        print(f"{name}: {took:.1f} s{'' if why is None else ' FAILED: ' + why}", flush=True)
        if why is None:
            return done.stdout
        self.failures.append({"step": name, "why": why, "command": " ".join(command)})
        return None

    def tutti(self, *arguments, name, limit=STEP_SECONDS, variables=None):
        environment = os.environ | (variables or {})
        return self.step(name, [self.options.tutti, *arguments], limit, environment)

    def add(self, ours, theirs=None, **fields):
        """One record; `theirs` is a report of bench/peers."""
        versions = {"driver": self.driver, "Tutti": ours.get("backend", "")}
        fields = {"card": self.found[0], "date": self.date, "versions": versions} | fields
        if theirs is not None:
            fields["versions"] = versions | theirs["versions"]
            fields |= {"peer": theirs["peer"], "peer_s": theirs["median_s"]}
        self.records.append(record(**fields))


def sized(flag, sizes, **others):
    given = sizes.call_sizes() | others
    return [part for name, size in given.items() for part in (flag, f"{name}={size}")]


def backend_options(options):
    chosen = ["--backend", "cuda"]
    if options.backend_directory:
        chosen += ["--backend-directory", options.backend_directory]
    return chosen


def make_model(run, sizes):
    """The model's folder; its weights are written here."""
    folder = Path(run.options.model) if run.options.model else run.work / "model"
    if not (folder / "model.onnx").exists():
        from cosmos import model

        model.write(folder, sizes, share=run.options.share)
    begin = time.monotonic()
    size = weights.write(folder)
    print(f"weights: {size / 1e9:.1f} GB in {time.monotonic() - begin:.1f} s", flush=True)
    return folder


def classes_of(report):
    """Seconds of rank 0 by class of kernel, idle time too."""
    rows = {row["class"]: row["seconds"] for row in report.get("classes", [[]])[0]}
    if rows and report.get("idle_s"):
        rows["idle"] = report["idle_s"][0]
    return rows or {row["op"]: row["seconds"] for row in report["kernels"]}


def bench(run, folder, sizes, mesh, name, runs=5, batch=1, variables=None, warmup=2):
    """The report of `tutti bench`. At batch 1 with the numbers that the served calls have."""
    command = ["bench", folder / "model.onnx", *sized("--typical", sizes, batch=batch),
               *sized("--size", sizes, batch=batch), *backend_options(run.options), "--warmup", warmup,
               "--runs", runs, "--json"]  # fmt: skip
    if mesh:
        command += ["--mesh", mesh]
    if batch == 1:
        for key, file in inputs.write(run.work / "inputs", sizes).items():
            command += ["--input", f"{key}={file}"]
    out = run.tutti(*command, name=name, variables=variables)
    if out is None:
        return None
    report = json.loads(out)
    run.raw[name] = report
    print(
        f"  {report['median_s']:.4f} s ({report['min_s']:.4f} to {report['max_s']:.4f})", flush=True
    )
    return report


def peers(run, sizes, ranks, modes):
    """Mode -> report of PyTorch."""
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [*launcher, BENCH / "peers/forward.py", "--runs", run.options.runs, "--profile",
               "--layers", sizes.layers, "--frames", sizes.frames, "--modes", *modes]  # fmt: skip
    out = run.step(f"PyTorch, {ranks} ranks", command)
    reports = [json.loads(line) for line in (out or "").splitlines() if line.startswith("{")]
    for report in reports:
        run.raw[f"{report['peer']}, {ranks} ranks"] = report
        print(f"  {report['peer']} {report['median_s']:.4f} s", flush=True)
    return {report["peer"]: report for report in reports}


def forwards(run, folder, sizes, shape):
    """The table of scaling: ours and theirs at each number of ranks, one after the other."""
    for ranks in run.options.ranks:
        own = min(ranks, len(run.found))
        if own < ranks and not run.options.share_cards:
            continue
        mesh = f"cp={ranks}" if ranks > 1 else ""
        ours = bench(run, folder, sizes, mesh, f"Tutti, {ranks} ranks", run.options.runs)
        theirs = peers(run, sizes, ranks, run.options.peers) if own == ranks else {}
        if ours is None:
            continue
        common = {
            "name": FORWARD, "shape": shape, "ranks": ranks, "cards": own, "dtype": "bf16",
            "ours_s": ours["median_s"], "spread_s": [ours["min_s"], ours["max_s"]],
            "breakdown_s": classes_of(ours),
            "command": f"bench/scaling.py: tutti bench{' --mesh ' + mesh if mesh else ''}",
        }  # fmt: skip
        for peer in theirs.values() or [None]:
            run.add(ours, peer, **common)


def predicted_seconds(one, two, sizes, ranks):
    """A forward on more ranks than there are cards, from profiles of one rank and of two with their exchanges apart.

    What is not an exchange is shared out evenly: between ranks that have a card each it is measured, where two share one it is
    half of one rank's. An exchange takes as long as its bytes do at the rate that two ranks saw; a rank sends 1 / N of all, but to
    N - 1 others.
    """
    exchange = two["exchange"][0]
    tokens = sizes.frames * sizes.height * sizes.columns
    features = (2 * sizes.heads + 2 * sizes.kv_heads) * sizes.head_size
    sent = 2 * tokens * features / ranks * (ranks - 1) / ranks * sizes.layers
    profile, share = (one, 1) if two["cards"] < 2 else (two, 2)
    computed = sum(seconds for name, seconds in classes_of(profile).items() if name != "exchanges")
    return computed * share / ranks + sent / exchange["bytes_per_second"]


def predict(run, sizes, shape):
    """Records of rank counts that have no cards here, labelled as what they are."""
    one, two = run.raw.get("Tutti, 1 ranks"), run.raw.get("Tutti, 2 ranks, exchanges apart")
    if one is None or two is None or not two.get("exchange"):
        return
    for ranks in [r for r in RANKS if r > len(run.found)]:
        run.add(
            two, name="PREDICTION, not measured: " + FORWARD, shape=shape, ranks=ranks, cards=ranks, dtype="bf16",
            ours_s=round(predicted_seconds(one, two, sizes, ranks), 4),
            command="bench/scaling.py, from its profiles of 1 and 2 ranks",
            peer="our own one rank, measured", peer_s=one["median_s"],
        )  # fmt: skip


# What the exchanges of a forward are done by, beside the default: name -> environment.
WAYS = {
    "exchanges apart": {"TUTTI_CUDA_PIPELINE": "off", "TUTTI_CUDA_FUSE_EXCHANGE": "off"},
    "exchanges by NCCL": {"TUTTI_CUDA_EXCHANGE": "nccl"},
}


def apart(run, folder, sizes, shape, ways=WAYS):
    """The same forward with exchanges that do not overlap with attention, and with NCCL's."""
    for ranks in [r for r in run.options.ranks if r > 1]:
        cards = min(ranks, len(run.found))
        if cards < ranks and not run.options.share_cards:
            continue
        for way, variables in ways.items():
            if "NCCL" in way and cards < ranks:
                continue
            name = f"Tutti, {ranks} ranks, {way}"
            report = bench(
                run, folder, sizes, f"cp={ranks}", name, run.options.runs, variables=variables
            )
            if report is None:
                continue
            report["cards"] = cards
            given = " ".join(f"{key}={value}" for key, value in variables.items())
            run.add(
                report, name=f"{FORWARD}, {way}", shape=shape, ranks=ranks, cards=cards, dtype="bf16",
                ours_s=report["median_s"], spread_s=[report["min_s"], report["max_s"]],
                breakdown_s=classes_of(report),
                command=f"bench/scaling.py: {given} tutti bench --mesh cp={ranks}",
            )  # fmt: skip


def exchanges(run, folder, sizes, shape):
    """The exchanges of a layer as others make them, beside ours."""
    for ranks in [r for r in run.options.ranks if 1 < r <= len(run.found)]:
        ours = run.raw.get(f"Tutti, {ranks} ranks, exchanges apart")
        for way in ("nccl", "fast-ulysses"):
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                       f"--nproc-per-node={ranks}", BENCH / "peers/exchange.py", "--ways", way]  # fmt: skip
            out = run.step(f"exchange by {way}, {ranks} ranks", command, 60)
            for line in (out or "").splitlines():
                if not line.startswith("{"):
                    continue
                peer = json.loads(line)
                peer["median_s"] = peer["median_ms"] / 1e3
                run.raw[f"{peer['peer']}, {ranks} ranks"] = peer
                print(
                    f"  {peer['median_ms']:.3f} ms a layer, {peer['gb_per_s']:.0f} GB/s", flush=True
                )
                if ours is not None and ours.get("exchange"):
                    a_layer = ours["exchange"][0]["seconds"] / sizes.layers
                    run.add(
                        ours, peer, name="cosmos-shape, exchanges of a layer, waiting included", shape=shape,
                        ranks=ranks, dtype="bf16", ours_s=a_layer,
                        command="bench/scaling.py: tutti bench, profiled; bench/peers/exchange.py",
                    )  # fmt: skip


def fidelity(run, folder, sizes):
    """N ranks and PyTorch's bf16 against fp64, at few frames."""
    work = run.work / "fidelity"
    script = [sys.executable, BENCH / "peers/fidelity.py"]
    few = ["--frames", min(4, sizes.frames), "--text", min(300, sizes.text)]
    if run.step("inputs", [*script, "inputs", folder, work, *few]) is None:
        return
    results = []
    for ranks in run.options.ranks:
        mesh = ["--mesh", f"cp={ranks}"] if ranks > 1 else []
        given = [part for name in ("patches", "timestep", "ids")
                  for part in ("--input", f"{name}={work}/{name}.npy")]  # fmt: skip
        out = work / f"cp{ranks}"
        command = ["run", folder / "model.onnx", *sized("--typical", sizes), *mesh, *given,
                   *backend_options(run.options), "--output-dir", out]  # fmt: skip
        if run.tutti(*command, name=f"fidelity, {ranks} ranks") is not None:
            results.append(out / "0.npy")
    out = run.step("fidelity", [*script, "compare", folder, work, *results])
    if out is not None:
        run.raw["fidelity"] = json.loads(out)
        print(f"  {out.strip()}", flush=True)


def guided_pair(run, folder, sizes, shape):
    """Two guidance branches on one rank, and side by side."""
    one = bench(run, folder, sizes, "", "a pair on 1 rank", run.options.runs, batch=2)
    two = bench(run, folder, sizes, "cfg=2", "a pair with cfg=2", run.options.runs, batch=2)
    for ranks, mesh, report in ((1, "", one), (2, "cfg=2", two)):
        if report is None:
            continue
        run.add(
            report, name="cosmos-shape, a guided pair", shape=shape, ranks=ranks,
            cards=min(ranks, len(run.found)), dtype="bf16", ours_s=report["median_s"],
            spread_s=[report["min_s"], report["max_s"]],
            command=f"bench/scaling.py: tutti bench{' --mesh ' + mesh if mesh else ''} --size batch=2",
        )  # fmt: skip


def clips(run):
    """The sample transformer, fp32 and bf16."""
    path = ROOT / "models/clips/onnx/transformer.onnx"
    sizes = {"batch": 1, "frames": 7, "height": 16, "width": 16, "text_len": 24}
    given = [part for name, size in sizes.items() for part in ("--size", f"{name}={size}")]
    for precision in ("keep", "bf16"):
        for ranks in [r for r in run.options.ranks if r <= len(run.found)]:
            mesh = ["--mesh", f"cp={ranks}"] if ranks > 1 else []
            options = ["--precision", precision] if precision != "keep" else []
            out = run.tutti(
                "bench", path, *given, *mesh, *options, *backend_options(run.options), "--warmup", 5,
                "--runs", 20, "--json", name=f"clips, {precision}, {ranks} ranks", limit=40,
            )  # fmt: skip
            if out is None:
                continue
            report = json.loads(out)
            run.add(
                report, name="sample transformer, one forward",
                shape="batch 1, 1,792 video tokens, 24 text tokens", ranks=ranks, cards=ranks,
                dtype="fp32" if precision == "keep" else precision, ours_s=report["median_s"],
                spread_s=[report["min_s"], report["max_s"]],
                command=" ".join(["tutti bench", *mesh, *options, "models/clips/onnx/transformer.onnx"]),
            )  # fmt: skip


def served(run, folder, sizes, shape):
    """The call over gRPC from this host, against `tutti bench` of the same plan."""
    repository = run.work / "repository"
    shutil.rmtree(repository, ignore_errors=True)
    for ranks in [r for r in run.options.ranks if r <= len(run.found)]:
        name = f"cosmos_{ranks}"
        mesh = ["--mesh", f"cp={ranks}"] if ranks > 1 else []
        command = ["compile", folder / "model.onnx", "--output", repository / name, "--quiet",
                   *sized("--typical", sizes), *mesh]  # fmt: skip
        if run.tutti(*command, name=f"compile, {ranks} ranks") is None:
            return
        out = run.step(
            f"served, {ranks} ranks",
            [sys.executable, BENCH / "cosmos/served.py", run.options.tutti, repository, name, ranks,
             "--frames", sizes.frames, "--text", sizes.text, "--features", sizes.features,
             "--runs", min(run.options.runs, 3), "--together", 2, *backend_options(run.options)],
        )  # fmt: skip
        shutil.rmtree(repository / name, ignore_errors=True)
        bare = run.raw.get(f"Tutti, {ranks} ranks")
        if out is None or bare is None:
            continue
        # Cards slow down as they warm up, for about as long as the served calls went on: the bare
        # forward on a card that is as warm.
        again = bench(run, folder, sizes, mesh[-1] if mesh else "", f"Tutti, {ranks} ranks, warm",
                      warmup=10, runs=run.options.runs)  # fmt: skip
        bare_s = (again or bare)["median_s"]
        report = json.loads(out)
        run.raw[f"served, {ranks} ranks"] = report
        for way, why in report["failures"].items():
            run.failures.append({"step": f"served, {ranks} ranks, {way}", "why": why})
        calls = [(way, seconds, "one client") for way, seconds in report["median_s"].items()]
        for way, seconds in report["two_in_flight_s"].items():
            calls.append((f"{way}, two in flight", seconds, "two clients, time by calls"))
        for way, seconds, clients in calls:
            run.add(
                bare, name=f"cosmos-shape, a call by {way}", shape=shape, ranks=ranks, dtype="bf16",
                ours_s=seconds, peer="the bare forward after as much load", peer_s=bare_s,
                command=f"bench/scaling.py: tutti serve, {clients}",
            )  # fmt: skip


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", default="/tmp/tutti-scaling", help="models, plans, inputs")
    parser.add_argument(
        "--model", help="folder with model.onnx and weights.json; else it is written"
    )
    parser.add_argument("--report", default=str(ROOT / "build/reports/scaling.json"))
    parser.add_argument(
        "--tutti", default=os.environ.get("TUTTI_BINARY", ROOT / "build/release/bin/tutti")
    )
    parser.add_argument("--backend-directory")
    parser.add_argument("--seconds", type=float, default=530)
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--share", default="text", choices=["none", "text", "all"])
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--share-cards", action="store_true", help="also more ranks than cards")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", nargs="+", default=["compile", "eager"])
    parser.add_argument(
        "--steps",
        nargs="+",
        default=["forwards", "apart", "exchanges", "fidelity", "pair", "clips", "served"],
    )
    return parser.parse_args(arguments)


def main():
    options = parse()
    found = cards()
    if not found:
        print("scaling: no GPU here, nothing measured")
        return 0
    run = Run(options, found)
    sizes = Sizes(layers=options.layers, frames=options.frames)
    tokens = sizes.frames * sizes.height * sizes.columns
    shape = f"{sizes.layers} layers, {tokens:,} video and {sizes.text:,} text tokens"
    folder = make_model(run, sizes)
    steps = {
        "forwards": lambda: forwards(run, folder, sizes, shape),
        "apart": lambda: apart(run, folder, sizes, shape),
        "exchanges": lambda: exchanges(run, folder, sizes, shape),
        "fidelity": lambda: fidelity(run, folder, sizes),
        "pair": lambda: guided_pair(run, folder, sizes, shape),
        "clips": lambda: clips(run),
        "served": lambda: served(run, folder, sizes, shape),
    }
    try:
        for name in options.steps:
            steps[name]()
        predict(run, sizes, shape)
    finally:
        report = {"cards": found, "records": run.records, "failures": run.failures, "raw": run.raw}
        Path(options.report).parent.mkdir(parents=True, exist_ok=True)
        Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    for r in run.records:
        peer = f", {r['peer']} {r['peer_s']:.4f} s, ratio {r['ratio']:.3f}" if r["peer"] else ""
        print(
            f"{r['name']}, {r['ranks']} ranks on {r.get('cards', r['ranks'])}: {r['ours_s']:.4f} s{peer}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
