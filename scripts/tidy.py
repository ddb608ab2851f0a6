#!/usr/bin/env python3
"""Runs clang-tidy on the sources of a build tree, in parallel, skipping what passed before.

    tidy.py BUILD_DIR [PATH...]

A file's key is a hash of its compile command, of .clang-tidy, and of the content of every file
of ours that the last build saw it include; a pass leaves an empty file of that name.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-14"


def gcc_openmp_include():
    """The folder of GCC's omp.h: clang is asked to look there last."""
    path = subprocess.run(
        ["g++", "-print-file-name=include"], capture_output=True, text=True, check=True
    )
    return path.stdout.strip()


def included_files(build):
    """Object file -> files it was compiled from, as ninja recorded them."""
    text = subprocess.run(
        ["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    result = {}
    files = None
    for line in text.splitlines():
        if match := re.match(r"(\S+): #deps", line):
            files = result.setdefault(match[1], [])
        elif line.startswith("    ") and files is not None:
            files.append((build / line.strip()).resolve())
    return result


def file_key(entry, files, config):
    digest = hashlib.sha256(config)
    digest.update(entry["command"].encode())
    for path in sorted({Path(entry["file"]), *files}):
        if path.is_relative_to(ROOT) and path.exists():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def main():
    build = Path(sys.argv[1]).resolve()
    only = [(ROOT / path).resolve() for path in sys.argv[2:]]
    entries = json.loads((build / "compile_commands.json").read_text())
    sources = ROOT / "src", ROOT / "tests"
    config = (ROOT / ".clang-tidy").read_bytes()
    passed = ROOT / "build" / "tidy"
    passed.mkdir(parents=True, exist_ok=True)
    includes = included_files(build)
    openmp = gcc_openmp_include()

    work = []
    for entry in entries:
        path = Path(entry["file"]).resolve()
        if not any(path.is_relative_to(folder) for folder in sources):
            continue
        if only and not any(path.is_relative_to(folder) for folder in only):
            continue
        key = passed / file_key(entry, includes.get(entry.get("output"), []), config)
        if not key.exists():
            work.append((path, key))

    def check(item):
        path, key = item
        run = subprocess.run(
            [
                TIDY,
                "--quiet",
                "-p",
                str(build),
                f"--extra-arg=-idirafter{openmp}",
                # The commands are for GCC, whose warnings clang does not all know.
                "--extra-arg=-Wno-unknown-warning-option",
                str(path),
            ],
            capture_output=True,
            text=True,
        )
        if run.returncode == 0 and not run.stdout.strip():
            key.touch()
            return path, ""
        return path, run.stdout or run.stderr

    failures = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (path, report) in enumerate(pool.map(check, work), 1):
            print(f"[{done}/{len(work)}] {path.relative_to(ROOT)}", flush=True)
            if report:
                failures += 1
                print(report, flush=True)
    print(f"clang-tidy: {len(work)} files read, {failures} with findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
