"""How long `tutti compile` takes for a large transformer, and how much memory.

Writes the reference workload (bench/cosmos: two towers, bf16), compiles it for --mesh, and reports wall time, CPU time
and the peak of resident memory, anonymous (the compiler's own) and mapped (the weights' pages, which the system may
take back) apart. All layers of a tower read the same weights, so that model and plan take 0.8 GB each; with
--all-weights each layer has its own, 28 GB each. How long the disk alone takes for as many bytes as the plan has is
measured beside it.

Report: build/reports/compile_large.json.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cosmos import model, weights
from cosmos.sizes import add_size_options, sizes_from

ROOT = Path(__file__).resolve().parents[1]
BINARY = os.environ.get("TUTTI_BINARY", str(ROOT / "build/release/bin/tutti"))


def write_seconds(folder, size):
    """What the disk alone takes for as many bytes as the plan has, written and flushed."""
    block = bytes(1 << 24)
    start = time.perf_counter()
    with open(folder / "probe", "wb") as probe:
        for _ in range(-(-size // len(block))):
            probe.write(block)
        probe.flush()
        os.fsync(probe.fileno())
    took = time.perf_counter() - start
    (folder / "probe").unlink()
    return took


def memory_of(pid):
    """Resident bytes of a process: its own, and mapped files'."""
    found = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(("RssAnon", "RssFile")):
                key, value, _ = line.split()
                found[key.rstrip(":")] = int(value) * 1024
    except OSError:
        pass
    return found.get("RssAnon", 0), found.get("RssFile", 0)


def compile_model(path, folder, mesh):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with open(folder / "log", "w") as log:
        command = [BINARY, "compile", path, "--output", folder / "plan", "--mesh", mesh]
        process = subprocess.Popen(command, stderr=log)
        anonymous = mapped = 0
        while process.poll() is None:
            own, files = memory_of(process.pid)
            anonymous, mapped = max(anonymous, own), max(mapped, files)
            time.sleep(0.02)
    wall = time.perf_counter() - start
    passes = (folder / "log").read_text()
    if process.returncode != 0:
        sys.exit(f"tutti compile failed: {passes}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": wall,
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
        "peak_anonymous_bytes": anonymous,
        "peak_mapped_bytes": mapped,
        "plan_bytes": sum(f.stat().st_size for f in (folder / "plan/1").iterdir()),
        "passes": passes.splitlines(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_size_options(parser)
    parser.add_argument("--mesh", default="cp=8")
    parser.add_argument("--all-weights", action="store_true", help="28 GB, twice")
    parser.add_argument(
        "--folder", help="where model and plan go (and stay); default: a temporary one"
    )
    parser.add_argument("--report", default=str(ROOT / "build/reports/compile_large.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        share = "none" if options.all_weights else "all"
        path = model.write(folder, sizes_from(options), share=share)
        data_bytes = weights.write(folder)
        report = {"model": vars(options), "weight_bytes": data_bytes}
        report.update(compile_model(path, folder, options.mesh))
        report["disk_s"] = write_seconds(folder, report["plan_bytes"])
        report["load_average"] = os.getloadavg()
    Path(options.report).parent.mkdir(parents=True, exist_ok=True)
    Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(report["passes"]))
    print(
        f"{data_bytes / 1e9:.2f} GB of weights, {options.mesh}: "
        f"{report['wall_s']:.1f} s ({report['user_s']:.1f} s user, {report['system_s']:.1f} s system), "
        f"{report['peak_anonymous_bytes'] / 1e9:.2f} GB own memory, "
        f"{report['peak_mapped_bytes'] / 1e9:.2f} GB mapped at the peak; "
        f"writing as many bytes takes the disk {report['disk_s']:.1f} s"
    )


if __name__ == "__main__":
    main()
