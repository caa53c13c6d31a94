"""The settings of a training run: one flat, frozen record."""

from __future__ import annotations

import json
import types
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tyro.constructors import PrimitiveConstructorSpec

from reqnn.errors import InputError
from reqnn.importing import check_named_by_file

Protocol = Literal["NR", "y", "z", "vertical", "AR"]
"""Rotations: none, about one axis, about the data set's vertical axis, arbitrary."""


Task = Literal["classification", "segmentation", "normals", "reconstruction"]
TASKS = get_args(Task)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)  # a JSONDecodeError is a ValueError: tyro shows its message
    if not isinstance(value, dict):
        raise ValueError(f"{text} is not a JSON object; write for example '{{\"k\": 10}}'")
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
"""Keyword arguments, given as a JSON object on the command line."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of a training run; runs with equal settings give equal weights."""

    model: str = "dgcnn"
    """A network by its name in `reqnn models`, or your own: my_models.py:Net, from clouds (B, N, 3) to logits."""
    equivariant: bool = False
    """Train the revised network (REQNN)."""
    options: JsonObject = field(default_factory=dict)
    """Arguments of the network: '{"width": 0.5, "k": 10}'."""
    rules: str = "paper"
    """The rule set: paper, full, vector-neurons, frames, or your own: my_rules.py:mine."""
    rule_options: JsonObject = field(default_factory=dict)
    """Constants of the rule set: '{"c": "mean"}'."""
    task: Task = "classification"
    """classification; segmentation (networks with an output per point: dgcnn_parts, pointnet2_parts, pointnet_parts);
    normals of the surface (plane_fit; data with normals, such as scanned or meshes);
    or reconstruction of the input (networks that output clouds: pointnet_reconstruction)."""
    loss: Literal["auto", "mse", "chamfer"] = "auto"
    """Reconstruction: mse compares point by point, chamfer as sets. auto: mse if the network maps each point."""

    start_from: str | None = None
    """Start from trained weights: a name of `reqnn predict --list`, a run's folder or a weights file. Default: new weights."""

    teacher: str | None = None
    """Classification: learn the answers of this trained network beside the labels. As start_from; it needs the same classes."""
    teacher_share: float = 0.7
    """With a teacher: the weight of its answers in the loss; the labels have the rest."""

    data: str = "digits"
    """The data set: its name in `reqnn data`, or a path."""
    root: str | None = None
    """The folder with the data sets. Default: $REQNN_DATA."""
    points: int = 1024
    """Points per cloud."""
    validation: float = 0.1
    """Share of the training set held out to select the best weights."""
    fraction: float = 1.0
    """Train on this share of the training clouds of each class, drawn by the seed; the validation clouds do not change."""
    limit: int | None = None
    """Use only this many clouds for training and validation."""

    protocol: Protocol = "NR"
    """Rotations of the training clouds: NR none, y or z about that axis, vertical about the data set's own, AR arbitrary."""
    scale: float = 0.0
    """Scale each training cloud by a random factor between 1/(1 + scale) and 1 + scale."""
    stretch: float = 0.0
    """Stretch each axis of each training cloud by a random factor between 1/(1 + stretch) and 1 + stretch."""
    jitter: float = 0.0
    """Standard deviation of the noise on each coordinate."""
    point_dropout: float = 0.0
    """Drop up to this share of a cloud's points."""
    sampled_from: int = 0
    """Load clouds of this many points and train on a new random subset each time; 0: always the same points."""

    epochs: int = 100
    """Passes over the training set."""
    batch: int = 32
    """Batch size, over all processes."""
    accumulate: int = 1
    """Split the batch of each process into this many forward passes, to save memory."""
    optimizer: Literal["sgd", "adam", "adamw", "muon"] = "sgd"
    """SGD with momentum, Adam, AdamW, or Muon on the hidden matrices with AdamW on the rest."""
    lr: float = 0.1
    """The (largest) learning rate."""
    adamw_lr: float = 3e-3
    """With muon: the (largest) learning rate of AdamW on the rest; same schedule."""
    min_lr: float = 0.0
    """The final learning rate of the cosine and one-cycle schedules."""
    schedule: Literal["cosine", "step", "constant", "onecycle"] = "cosine"
    """Learning rate schedule; onecycle first rises from lr/25 over 30 % of the steps."""
    warmup: float = 0.0
    """Epochs of linear warm-up from 0 (not with onecycle)."""
    decay_epochs: float = 20.0
    """The step schedule multiplies the learning rate by decay_rate every decay_epochs."""
    decay_rate: float = 0.7
    """See decay_epochs."""
    momentum: float = 0.9
    """Momentum of SGD; first beta of Adam and AdamW (Muon: always 0.95)."""
    weight_decay: float = 1e-4
    """Weight decay."""
    smoothing: float = 0.0
    """Label smoothing ε: ε/(n − 1) on each wrong class, as in the paper."""
    clip: float = 0.0
    """Largest norm of the gradient; 0 for no limit."""
    ema: float = 0.0
    """Validate and save an exponential moving average of the weights with this decay, such as 0.999; 0 for none."""
    recalibrate: int = 8
    """Training batches to re-estimate the batch-norm statistics from before each validation; 0 for none."""

    precision: Literal["auto", "32-true", "bf16-mixed", "64-true"] = "auto"
    """auto: bfloat16 on GPUs that support it, else float32; normalisation stays in float32."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device type."""
    devices: int = 1
    """Processes on this machine, one per GPU; `torchrun` overrides it."""
    workers: int = 0
    """Data loading processes per training process."""
    threads: int = 0
    """CPU threads per training process; 0: torch's default. Kept on --resume."""
    seed: int = 0
    """Seed of the weights, the order of the batches, augmentation and dropout."""

    out: str | None = None
    """The run's folder. Default: runs/ and the data set, the network and the seed."""
    checkpoint_steps: int = 0
    """Also write a checkpoint every this many steps; 0: by time only."""
    checkpoint_seconds: float = 60.0
    """Write a checkpoint at least this often, and at the end of the run."""
    tensorboard: bool = False
    """Also write TensorBoard event files (the extra `tensorboard`)."""

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
        for name in ("validation", "smoothing", "momentum", "ema", "point_dropout", "teacher_share"):
            self._require(0 <= getattr(self, name) < 1, name, "must be at least 0 and below 1")
        self._require(self.validation > 0, "validation", "must be above 0: the best weights are never selected on the test set")
        self._require(self.min_lr <= self.lr, "min_lr", f"must not be above lr = {self.lr}")
        self._require(self.warmup < self.epochs, "warmup", f"must end before the {self.epochs} epochs do")
        self._require(0 < self.fraction <= 1, "fraction", "must be above 0 and at most 1")
        self._require(self.limit is None or self.limit >= 1, "limit", "must be at least 1")
        enough = self.sampled_from == 0 or self.sampled_from >= self.points
        self._require(enough, "sampled_from", f"must be 0 or at least points = {self.points}")
        free = self.loss == "auto" or self.task == "reconstruction"
        self._require(free, "loss", f"must be auto for {self.task}; mse and chamfer belong to --task reconstruction")
        taught = self.teacher is None or self.task == "classification"
        self._require(taught, "teacher", f"must be none for {self.task}: only classification learns from another network")
        kept = self.point_dropout == 0 or self.task not in ("segmentation", "normals")
        self._require(kept, "point_dropout", f"must be 0 for {self.task}: a point that moves onto another has no target")
        rigid = self.stretch == 0 or self.task != "normals"
        self._require(rigid, "stretch", "must be 0 for normals: a stretched surface has other normals")
        shares = self.devices * self.accumulate
        self._require(self.batch % shares == 0, "batch", f"must divide by devices × accumulate = {shares}")

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise InputError(f"{name} is {getattr(self, name)}; it {rule}")

    @property
    def folder(self) -> Path:
        """The run's folder."""
        kind = "reqnn" if self.equivariant else "original"
        protocol = "" if self.protocol == "NR" else f"-{self.protocol}"
        model = self.model.rpartition(":")[2]
        return Path(self.out or f"runs/{Path(self.data).stem}-{model}-{kind}{protocol}-{self.seed}")

    def check_code(self, where: str) -> None:
        """`InputError` if settings that were read from a file name code that is not the user's own."""
        for name in (self.model, self.rules):
            check_named_by_file(name, where)

    def to_dict(self) -> dict[str, Any]:
        """All settings, for JSON."""
        return asdict(self)

    def without_folders(self) -> dict[str, Any]:
        """All settings without paths of this machine, for published results."""
        names = {name: Path(getattr(self, name)).name for name in ("data", "model", "rules")}
        weights = {"start_from": self.start_from, "teacher": self.teacher}
        absolute = {name: Path(file).name for name, file in weights.items() if file and Path(file).expanduser().is_absolute()}
        kept = {**self.to_dict(), **names, **absolute}
        return {name: value for name, value in kept.items() if name not in ("out", "root")}

    def to_json(self) -> str:
        """All settings as JSON text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


RETIRED = ("factorised",)
"""Settings of earlier versions that had no effect on results; they are ignored."""


def config_from_dict(values: dict[str, Any], where: str = "the settings") -> TrainConfig:
    """The inverse of `to_dict`; unknown names raise `InputError`, missing ones get their defaults."""
    values = {name: value for name, value in values.items() if name not in RETIRED}
    check_types(TrainConfig, values, where)
    try:
        return TrainConfig(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def check_types(kind: type, values: dict[str, Any], where: str) -> None:
    """Raise `InputError` unless plain data has only names and types of a dataclass."""
    hints = get_type_hints(kind)
    if unknown := sorted(values.keys() - hints.keys()):
        raise InputError(f"{where}: there is no setting {', '.join(map(repr, unknown))}")
    for name, value in values.items():
        if not _fits(value, hints[name]):
            wanted = getattr(hints[name], "__name__", "") or str(hints[name]).removeprefix("typing.")
            raise InputError(f"{where}: {name} is {value!r}, of the wrong type; {wanted} is needed")


def _fits(value: Any, hint: Any) -> bool:
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inside)
    if origin is Literal:
        return isinstance(value, str) and value in inside
    if origin is list:
        return isinstance(value, list) and all(_fits(one, inside[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(inside[1] is Any or _fits(one, inside[1]) for one in value.values())
    numbers = {int: (int,), float: (int, float)}
    return isinstance(value, numbers.get(hint, (hint,))) and (hint is bool or not isinstance(value, bool))


def load_config(path: str | Path) -> TrainConfig:
    """Settings from a JSON file."""
    from reqnn.data.files import read_json

    config = config_from_dict(read_json(path, "settings"), str(path))
    config.check_code(str(path))
    return config


FREE = {"out", "root", "workers", "checkpoint_steps", "checkpoint_seconds", "tensorboard", "devices", "accelerator"}
"""Settings that may change on resume: they do not affect the weights (devices: up to rounding)."""


def resumed(before: TrainConfig, now: TrainConfig) -> TrainConfig:
    """The settings of a resumed run; `InputError` if one differs that affects the weights."""
    merged = replace(before, **{name: getattr(now, name) for name in FREE})
    for item in fields(TrainConfig):
        old, new = getattr(merged, item.name), getattr(now, item.name)
        if json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True) and not (item.name == "threads" and new == 0):
            raise InputError(f"{item.name} is {new!r}, but the run to resume has {old!r}; start a new run for that")
    return merged
