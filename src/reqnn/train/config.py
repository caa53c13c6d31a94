"""What a training run is made of: one flat, frozen record, with its JSON form and its checks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from tyro.constructors import PrimitiveConstructorSpec

from reqnn.errors import InputError

Protocol = Literal["NR", "y", "z", "vertical", "AR"]
"""Rotations: none, about one axis, about the data set's own vertical axis, any."""


Task = Literal["classification", "reconstruction"]
TASKS = get_args(Task)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)  # a JSONDecodeError is a ValueError: the message is shown beside the option
    if not isinstance(value, dict):
        raise ValueError(f"{text} is no JSON object; write for example '{{\"k\": 10}}'")
    return value


JsonObject = Annotated[
    dict[str, Any],
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=lambda words: _object(words[0]),
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda value: [json.dumps(value)],
    ),
]
"""Keyword arguments, on the command line as a JSON object."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Every setting of a training run; two runs with the same settings give the same weights."""

    model: str = "dgcnn"
    """A network by its name in `reqnn models`."""
    equivariant: bool = False
    """Train the network revised into its REQNN."""
    options: JsonObject = field(default_factory=dict)
    """Arguments that the network is built with: '{"width": 0.5, "k": 10}'."""
    rules: str = "paper"
    """The rule set of the revision."""
    rule_options: JsonObject = field(default_factory=dict)
    """Constants of the rule set: '{"c": "mean"}'."""
    task: Task = "classification"
    """Tell classes apart, or give the cloud back (networks that end in clouds: autoencoder, pointnet_reconstruction)."""
    loss: Literal["auto", "mse", "chamfer"] = "auto"
    """Of reconstruction: mse compares points one by one, chamfer as sets. auto: mse where the network maps each point."""

    start_from: str | None = None
    """Begin with trained weights: a name of `reqnn predict --list`, a run's folder or a weights file. Default: fresh ones."""

    data: str = "digits"
    """The data set: its name in `reqnn data`, or a path."""
    root: str | None = None
    """The folder with the data sets. Default: $REQNN_DATA."""
    points: int = 1024
    """Points of a cloud."""
    validation: float = 0.1
    """The share of the training set that the best weights are chosen by; it is not trained on."""
    fraction: float = 1.0
    """Train on this share of the training clouds of each class, drawn by the seed; validation clouds stay the same."""
    limit: int | None = None
    """Use only so many clouds for training and validation, to try things."""

    protocol: Protocol = "NR"
    """Rotations of the training clouds: NR none, y or z about that axis, vertical about the data set's own, AR any."""
    scale: float = 0.0
    """Scale each training cloud by a random factor between 1/(1 + scale) and 1 + scale."""
    stretch: float = 0.0
    """Stretch each training cloud along each axis by a random factor of its own between 1/(1 + stretch) and 1 + stretch."""
    jitter: float = 0.0
    """Move each coordinate by normal noise of this standard deviation."""
    point_dropout: float = 0.0
    """Drop up to this share of a cloud's points."""
    sampled_from: int = 0
    """Load clouds of so many points and train on a random choice of them, another each time; 0: always the same ones."""

    epochs: int = 100
    """Passes over the training set."""
    batch: int = 32
    """Clouds in one step of the optimizer, over all processes."""
    accumulate: int = 1
    """Forward passes that each process cuts its share of the batch into, to save memory."""
    optimizer: Literal["sgd", "adam", "adamw", "muon"] = "sgd"
    """SGD with momentum, Adam, AdamW (decoupled weight decay), or Muon on the hidden matrices with AdamW on the rest."""
    lr: float = 0.1
    """The (largest) learning rate."""
    adamw_lr: float = 3e-3
    """With muon: the (largest) learning rate of AdamW on the rest; it follows the same schedule."""
    min_lr: float = 0.0
    """Where the cosine and the one-cycle schedule end."""
    schedule: Literal["cosine", "step", "constant", "onecycle"] = "cosine"
    """How the learning rate falls, step by step; onecycle rises from lr/25 over the first 30 % before."""
    warmup: float = 0.0
    """Epochs over which the learning rate rises from 0 (not with onecycle)."""
    decay_epochs: float = 20.0
    """The step schedule multiplies the learning rate by decay_rate after each of these."""
    decay_rate: float = 0.7
    """See decay_epochs."""
    momentum: float = 0.9
    """Of SGD; the first beta of Adam and AdamW (Muon: always 0.95)."""
    weight_decay: float = 1e-4
    """Of all weights."""
    smoothing: float = 0.0
    """Label smoothing: this mass is shared by the wrong classes, ε/(n − 1) each, as in the paper."""
    clip: float = 0.0
    """Largest norm of the gradient; 0 for no limit."""
    ema: float = 0.0
    """Validate and keep an exponential moving average of the weights with this decay, 0.999 say; 0 for none."""
    recalibrate: int = 8
    """Training batches that the statistics of the batch-norms are estimated anew from before each validation; 0 for none."""

    precision: Literal["auto", "32-true", "bf16-mixed", "64-true"] = "auto"
    """auto: bfloat16 on GPUs that have it, float32 elsewhere; normalisation stays in float32."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to train."""
    devices: int = 1
    """Processes on this machine, one a GPU; under `torchrun` what it says."""
    workers: int = 0
    """Processes that prepare batches, in each training process."""
    threads: int = 0
    """CPU threads of each training process; 0: as torch finds it. Kept on --resume."""
    seed: int = 0
    """Of the weights, the order of the batches, augmentation and dropout."""

    out: str | None = None
    """The run's folder. Default: runs/ and the data set, the network and the seed."""
    checkpoint_steps: int = 0
    """Write a checkpoint every so many steps, too; 0: by time only."""
    checkpoint_seconds: float = 60.0
    """Write a checkpoint after so many seconds at the latest, and at the end of the run."""
    tensorboard: bool = False
    """Write TensorBoard's event files, too (the extra `tensorboard`)."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "accumulate", "points", "devices"):
            self._require(getattr(self, name) >= 1, name, "must be at least 1")
        for name in ("lr", "adamw_lr", "decay_epochs", "decay_rate"):
            self._require(getattr(self, name) > 0, name, "must be above 0")
        self._require(0 <= self.seed < 2**63, "seed", "must be a whole number from 0 to 2**63 - 1")
        amounts = ("min_lr", "warmup", "weight_decay", "clip", "scale", "stretch", "jitter")
        counts = ("recalibrate", "workers", "threads", "checkpoint_steps", "checkpoint_seconds")
        for name in (*amounts, *counts):
            self._require(getattr(self, name) >= 0, name, "must not be negative")
        for name in ("validation", "smoothing", "momentum", "ema", "point_dropout"):
            self._require(0 <= getattr(self, name) < 1, name, "must be at least 0 and below 1")
        self._require(self.validation > 0, "validation", "must be above 0: the best weights are never chosen by the test set")
        self._require(self.min_lr <= self.lr, "min_lr", f"must not be above lr = {self.lr}")
        self._require(self.warmup < self.epochs, "warmup", f"must end before the {self.epochs} epochs do")
        self._require(0 < self.fraction <= 1, "fraction", "must be above 0 and at most 1")
        self._require(self.limit is None or self.limit >= 1, "limit", "must be at least 1")
        enough = self.sampled_from == 0 or self.sampled_from >= self.points
        self._require(enough, "sampled_from", f"must be 0 or at least points = {self.points}")
        free = self.loss == "auto" or self.task == "reconstruction"
        self._require(free, "loss", "must be auto for classification; mse and chamfer belong to --task reconstruction")
        shares = self.devices * self.accumulate
        self._require(self.batch % shares == 0, "batch", f"must divide by devices × accumulate = {shares}")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise InputError(f"{name} is {getattr(self, name)}; it {rule}")

    @property
    def folder(self) -> Path:
        """Where the run is written."""
        kind = "reqnn" if self.equivariant else "original"
        turned = "" if self.protocol == "NR" else f"-{self.protocol}"
        return Path(self.out or f"runs/{Path(self.data).stem}-{self.model}-{kind}{turned}-{self.seed}")

    def to_dict(self) -> dict[str, Any]:
        """All settings as JSON takes them."""
        return asdict(self)

    def without_folders(self) -> dict[str, Any]:
        """All settings but where things lie on one's own machine: for results that others read."""
        start = self.start_from
        start = Path(start).name if start is not None and Path(start).expanduser().is_absolute() else start
        kept = {**self.to_dict(), "data": Path(self.data).name, "start_from": start}
        return {name: value for name, value in kept.items() if name not in ("out", "root")}

    def save(self, path: str | Path) -> None:
        """Write the settings as JSON."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """All settings as the text of a file."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


RETIRED = ("factorised",)
"""Settings of earlier versions that changed no result; files that name them are still read."""


def config_from_dict(values: dict[str, Any], where: str = "the settings") -> TrainConfig:
    """The settings that `to_dict` gave; unknown names raise `InputError`, missing ones have their defaults."""
    known = {item.name for item in fields(TrainConfig)}
    values = {name: value for name, value in values.items() if name not in RETIRED}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InputError(f"{where}: there is no setting {', '.join(map(repr, unknown))}")
    try:
        return TrainConfig(**values)
    except TypeError as error:
        raise InputError(f"{where}: a setting has the wrong type ({error})") from error


def load_config(path: str | Path) -> TrainConfig:
    """Settings from a JSON file."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: settings cannot be read ({error})") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: settings are a JSON object; found a {type(values).__name__}")
    return config_from_dict(values, str(path))


FREE = {"out", "root", "workers", "checkpoint_steps", "checkpoint_seconds", "tensorboard", "devices", "accelerator"}
"""Settings that may change when a run goes on: they do not decide the weights (devices: up to rounding)."""


def resumed(before: TrainConfig, now: TrainConfig) -> TrainConfig:
    """The settings of a run that goes on; `InputError` where one differs that decides the weights."""
    free = {name: getattr(now, name) for name in FREE}
    merged = replace(before, **free)
    for item in fields(TrainConfig):
        old, new = getattr(merged, item.name), getattr(now, item.name)
        if json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True) and not (item.name == "threads" and new == 0):
            raise InputError(f"{item.name} is {new!r}, but the run that is to go on has {old!r}; start a new run for that")
    return merged
