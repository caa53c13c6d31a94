"""Tensors in safetensors files, written atomically, with a checksum."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from reqnn.data.files import atomic_file, reading
from reqnn.errors import InputError


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The weights and statistics of a network by name; a shared tensor once, by its first name."""
    first = {name for name, _ in chain(model.named_parameters(), model.named_buffers())}
    return {name: tensor for name, tensor in model.state_dict().items() if name in first}


def load_model_tensors(model: nn.Module, tensors: dict[str, Tensor], where: str) -> None:
    """Load the tensors of `model_tensors` into a network of the same architecture; `InputError` if it differs."""
    own = model_tensors(model)
    problems = [f"it lacks {name}" for name in own.keys() - tensors.keys()]
    problems += [f"it has {name}, which the network lacks" for name in tensors.keys() - own.keys()]
    for name in own.keys() & tensors.keys():
        found, wanted = tuple(tensors[name].shape), tuple(own[name].shape)
        problems += [f"its {name} has shape {found}, the network's {wanted}"] * (found != wanted)
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise InputError(f"{where} does not belong to this network: {'; '.join(sorted(problems)[:3])}{more}")
    for name, tensor in own.items():
        tensor.copy_(tensors[name])


def weights_checksum(model: nn.Module) -> str:
    """A checksum of the weights and statistics of a network."""
    return checksum({name: tensor.detach().cpu() for name, tensor in model_tensors(model).items()})


def save_tensors(path: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write tensors and a JSON record as one safetensors file, atomically and synced to disk."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    record = json.dumps(about)
    metadata = {"reqnn": record, "checksum": checksum(stored, record)}
    with atomic_file(path) as partial, partial.open("wb") as file:
        file.write(safetensors.torch.save(stored, metadata))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file of `save_tensors`; `InputError` if it is truncated, damaged or of another kind."""
    with reading(path, "a safetensors file"):
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
        record, found = metadata.get("reqnn"), metadata.get("checksum")
        if record is None:
            raise InputError(f"{path} holds tensors, but no record of their network; give a file written by reqnn")
        # Earlier files have a checksum of their tensors only. A file of today, once damaged, matches neither of the two.
        if found != checksum(tensors, record) and found != checksum(tensors):
            raise InputError(f"{path} is damaged: its checksum does not match its tensors and its record")
        about = json.loads(record)
    if not isinstance(about, dict):
        raise InputError(f"{path} is damaged: its record is a {type(about).__name__}, not a JSON object")
    return tensors, about


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that renames survive a power cut, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def checksum(tensors: dict[str, Tensor], record: str | None = None) -> str:
    """A checksum of names and values; with a record, of that too, and of shapes and dtypes."""
    digest = hashlib.blake2b((record or "").encode(), digest_size=16)
    for name in sorted(tensors):
        about = "" if record is None else f" {tensors[name].dtype} {tuple(tensors[name].shape)}"
        digest.update(f"{name}{about}".encode())
        digest.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
