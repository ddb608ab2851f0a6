"""Writes the texts of kernel files as C++: embed_kernels.py OUT.cpp FILE.cuh..."""

import sys
from pathlib import Path


def main():
    out = Path(sys.argv[1])
    entries = []
    for name in sorted(sys.argv[2:]):
        path = Path(name)
        text = path.read_text()
        # Pieces below the length that compilers must accept for one literal.
        pieces = [text[i : i + 12000] for i in range(0, len(text), 12000)]
        literal = "\n".join(f'R"__tutti({piece})__tutti"' for piece in pieces)
        entries.append(f'  if (name == "{path.name}") return {literal};')
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        '#include "backends/cuda/compiler.h"\n\nnamespace tutti::cuda {\n\n'
        "std::string_view kernel_file(std::string_view name) {\n"
        + "\n".join(entries)
        + '\n  return "";\n}\n\n}  // namespace tutti::cuda\n'
    )


if __name__ == "__main__":
    main()
