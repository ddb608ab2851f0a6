"""Lets PyTorch's CUDA build import on a machine that has none of CUDA's libraries.

The wheel on the package index links cuBLAS, cuDNN, NCCL and others: 3 GB that a run on the CPU never
calls. This puts small libraries of their names beside PyTorch's own, except for those that are installed (the
run time is: it says that there is no device). Every function in the stand-ins answers an error.

    torch_without_cuda.py SITE_PACKAGES
"""

import re
import subprocess
import sys
from pathlib import Path

SYMBOLS_OF_CUDA = re.compile(r"(cu[A-Za-z]|__cuda|nccl|nvrtc|nvJit|nvshmem)\w*$")
CUDA_LIBRARY = re.compile(r"lib(cu|nccl|nvrtc|nvJit|nvshmem|nvToolsExt)\w*\.so\.\d+$")
NO_DEVICE = 100  # cudaErrorNoDevice
STAND_IN = "libtorch_without_cuda.so"


def lines_of(*command):
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def symbols(library, kind):
    """Dynamic symbols without their versions; kind is 'defined' or 'undefined'."""
    words = (line.split() for line in lines_of("nm", "-D", f"--{kind}-only", library))
    return {w[-1].split("@")[0] for w in words if kind == "defined" or w[-2] == "U"}


def needed(library):
    found = (
        re.search(r"\(NEEDED\).*\[(.*)\]", line) for line in lines_of("readelf", "-d", library)
    )
    return {match[1] for match in found if match}


def link(source, path, *options):
    """Compiles C text into a shared library of the same name as the file."""
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-w", "-o", path, f"-Wl,-soname,{path.name}"]
        + ["-x", "c", "-", "-x", "none", *options],
        input=source,
        text=True,
        check=True,
    )


def main(site_packages):
    folder = Path(site_packages) / "torch/lib"
    ours = [path for path in folder.glob("*.so*") if not CUDA_LIBRARY.match(path.name)]
    ours = [path for path in ours if path.name != STAND_IN]
    if not ours:
        sys.exit(f"{folder}: no PyTorch libraries here")
    missing = set().union(*(symbols(path, "undefined") for path in ours))
    real = list(Path(site_packages).glob("nvidia/*/lib/*.so*"))
    missing -= set().union(*(symbols(path, "defined") for path in [*ours, *real]))
    names = sorted(name for name in missing if SYMBOLS_OF_CUDA.match(name))
    functions = "".join(f"long {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names)
    link(functions, folder / STAND_IN)
    libraries = {n for path in ours for n in needed(path) if CUDA_LIBRARY.match(n)}
    libraries -= {path.name for path in real}
    for name in sorted(libraries):
        link("", folder / name, "-Wl,--no-as-needed,-rpath,$ORIGIN", folder / STAND_IN)
    print(f"{len(names)} functions for {len(libraries)} libraries of CUDA")


if __name__ == "__main__":
    main(*sys.argv[1:])
