"""Finds the module that the command line asks for."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import torch
from tutti.export.exporter import ExportError


def load_module(model: str, config: str | None, subfolder: str | None) -> torch.nn.Module:
    """From a folder in Diffusers (or transformers) format, or a class `package.Class` and a JSON config.

    Without weights in the folder, or with a class alone, weights are random from the current seed.
    """
    path = Path(model)
    if path.is_dir():
        return _from_folder(path / subfolder if subfolder else path)
    cls = find_class(model)
    values = _read_config(config)
    if hasattr(cls, "from_config"):
        return cls.from_config(values) if hasattr(cls, "load_config") else cls(**values)
    if getattr(cls, "config_class", None) is not None:
        return cls(cls.config_class(**values))
    return cls(**values)


def find_class(name: str) -> type:
    """`package.module.Class`, or the name of a class of diffusers or transformers."""
    package, _, cls = name.rpartition(".")
    packages = (
        [package] if package else ["diffusers", "diffusers.models.transformers", "transformers"]
    )
    for candidate in packages:
        try:
            return getattr(importlib.import_module(candidate), cls)
        except (ImportError, AttributeError):
            continue
    raise ExportError(
        f"'{name}' is no folder, and no class of that name is in {', '.join(packages)}"
    )


def _read_config(config: str | None) -> dict[str, Any]:
    if config is None:
        return {}
    text = Path(config).read_text() if Path(config).is_file() else config
    try:
        return {k: v for k, v in json.loads(text).items() if not k.startswith("_")}
    except json.JSONDecodeError as error:
        raise ExportError(f"--config: neither a file nor JSON: {error}") from None


def _from_folder(folder: Path) -> torch.nn.Module:
    file = folder / "config.json"
    if not file.is_file():
        around = folder if folder.is_dir() else folder.parent
        inside = sorted(p.name for p in around.iterdir() if (p / "config.json").is_file())
        hint = f"; --subfolder may be {', '.join(inside)}" if inside else ""
        wrong = "has no config.json" if folder.is_dir() else "is no folder"
        raise ExportError(f"{folder} {wrong}{hint}")
    config = json.loads(file.read_text())
    name = config.get("_class_name") or (config.get("architectures") or [None])[0]
    if name is None:
        raise ExportError(f"{file} names no class: expected '_class_name' or 'architectures'")
    cls = find_class(name)
    has_weights = any(folder.glob("*.safetensors")) or any(folder.glob("*.bin"))
    if has_weights:
        # Diffusers would ask for accelerate, which nothing here needs.
        options = {"low_cpu_mem_usage": False} if "_class_name" in config else {}
        return cls.from_pretrained(folder, local_files_only=True, **options)
    if "_class_name" in config:
        return cls.from_config(config)
    return cls(cls.config_class(**config))
