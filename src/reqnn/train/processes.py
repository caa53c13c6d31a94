"""Devices and processes of a run: CPU, GPU, several processes, or several machines under torchrun."""

from __future__ import annotations

import logging
import os
import warnings
from typing import TYPE_CHECKING

import torch

from reqnn.errors import InputError
from reqnn.extras import need
from reqnn.train.config import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def connect(config: TrainConfig) -> Fabric:
    """Start the processes, or join those of `torchrun`."""
    fabric_class = need("lightning_fabric").Fabric
    devices, nodes = config.devices, 1
    if torch.distributed.is_available() and torch.distributed.is_torchelastic_launched():
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    shares = devices * nodes * config.accumulate
    if config.batch % shares:
        raise InputError(f"batch is {config.batch}; it must divide by processes × accumulate = {shares}")
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    accelerator = _accelerator(config.accelerator)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*GPU available but not used.*")
        fabric: Fabric = fabric_class(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy="ddp" if devices * nodes > 1 else "auto",
            precision=_precision(config.precision, accelerator),
        )
        fabric.launch()
    return fabric


def _accelerator(name: str) -> str:
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return next(kind for kind, present in found.items() if present)
    if not found[name]:
        raise InputError(
            f"accelerator is {name}, but torch finds none here; available: {', '.join(k for k in found if found[k])}"
        )
    return name


def resolved_precision(config: TrainConfig, fabric: Fabric) -> str:
    """The precision of a run on its device."""
    return _precision(config.precision, fabric.device.type)


def _precision(name: str, accelerator: str) -> str:
    """bfloat16 needs no loss scaling; float16 is not offered, since squared norms overflow."""
    if name == "auto":
        return "bf16-mixed" if accelerator == "cuda" and torch.cuda.is_bf16_supported() else "32-true"
    return name
