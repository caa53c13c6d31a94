"""The comparison: rule sets × networks × data sets × seeds, at equal epochs or at equal time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from experiments.compare.pace import Pace
from experiments.harness.trial import Trial
from experiments.paper.budgets import REDUCED, Budget, config_of
from experiments.paper.experiments import DATA, NETWORKS, Experiment
from reqnn import data as datasets
from reqnn.errors import InputError
from reqnn.rules import get_rules
from reqnn.train.config import TrainConfig
from reqnn.train.presets import CONSTANTS

OVERHEAD = 1.15  # an epoch also validates, and estimates the statistics of batch-norms anew


@dataclass(frozen=True, kw_only=True)
class Contest:
    """A fair comparison: the settings of a budget of Table 4 for all, whatever the rules.

    Attributes:
        rules: names of rule sets, or your own: my_rules.py:mine.
        models, data: as in Table 4; a model may be your own, my_models.py:Net, with its own defaults instead of the
            options of the budget.
        seeds: trainings of each, with seeds 0, 1, ….
        epochs: of each training; 0: do not compare at equal epochs.
        minutes: of each training, as a number of epochs; 0: do not compare at equal time.
        budget: the settings of all.
    """

    rules: tuple[str, ...] = ("paper", "vector-neurons", "full")
    models: tuple[str, ...] = ("dgcnn",)
    data: tuple[str, ...] = ("modelnet40",)
    seeds: int = 1
    epochs: int = 0
    minutes: float = 0.0
    budget: Budget = field(default=REDUCED)

    def __post_init__(self) -> None:
        for name in self.rules:
            get_rules(name)
        for given, known, what in ((self.models, NETWORKS, "network"), (self.data, DATA, "data set")):
            unknown = [name for name in given if name not in known and ":" not in name]
            if unknown:
                raise InputError(f"no {what} of table 4 is named {unknown[0]!r}; there are {', '.join(known)}")
        if self.budget.after is not None:
            raise InputError(f"the budget {self.budget.name} starts from trained networks; compare rule sets from the start")
        if self.seeds < 1 or self.epochs < 0 or self.minutes < 0:
            raise InputError("seeds must be at least 1, epochs and minutes not negative")
        if not self.epochs and not self.minutes:
            raise InputError("give --epochs N for equal epochs, --minutes M for equal time, or both")

    @property
    def ways(self) -> list[str]:
        """How budgets are made equal: epochs-6, minutes-10."""
        return [f"epochs-{self.epochs}"] * bool(self.epochs) + [f"minutes-{self.minutes:g}"] * bool(self.minutes)

    @property
    def cells(self) -> list[tuple[str, str, str]]:
        """(data, model, rules) in the order in which they are run."""
        return [(data, model, rules) for data in self.data for model in self.models for rules in self.rules]

    def config(self, data: str, model: str, rules: str | None, seed: int = 0) -> TrainConfig:
        """The settings of a training; without a rule set, of the original network."""
        base = config_of(Experiment(data, model, "reqnn" if rules else "original"), self.budget)
        if model not in NETWORKS:  # the user's own: what `width` is to it is not known
            base = replace(base, options={})
        if rules is None:
            return replace(base, seed=seed)
        options = base.rule_options if rules == "paper" else CONSTANTS.get(rules, {})  # the budgets name those of the paper's
        return replace(base, rules=rules, rule_options=options, seed=seed)

    def paced(self) -> dict[str, dict[str, TrainConfig]]:
        """The training steps to time: network → name of the pace → settings; the original is timed with them."""
        some = self.data[0]
        return {
            model: {
                **{pace_key(model, rules): self.config(some, model, rules) for rules in self.rules},
                f"{model}/original": self.config(some, model, None),
            }
            for model in self.models
        }


def trials(contest: Contest, paces: Mapping[str, Pace], out: str = "results") -> list[Trial]:
    """All trainings, seed by seed, so that the first ones cover everything."""
    found = []
    clouds = {data: training_clouds(contest.config(data, contest.models[0], None)) for data in contest.data if contest.minutes}
    for seed in range(contest.seeds):
        for way in contest.ways:
            for data, model, rules in contest.cells:
                config = contest.config(data, model, rules, seed)
                epochs = contest.epochs
                if way.startswith("minutes"):
                    epochs = _epochs(contest.minutes, paces[pace_key(model, rules)], clouds[data])
                config = replace(config, epochs=epochs)
                key = f"{data}/{model}/{rules}/{seed}"
                title = f"{NETWORKS.get(model, model)} on {DATA[data]}: {rules}, seed {seed}, {way.replace('-', ' ')}"
                group = f"compare/{contest.budget.name}-{way}"
                budget = contest.budget
                options = budget.test_options.get(model, {})
                found.append(
                    Trial(key, title, group, config, command(contest, out), budget.copies, budget.test_shapes, options)
                )
    return found


def pace_key(model: str, rules: str) -> str:
    """The name of a measured pace: dgcnn/full. Clouds of all data sets have the same size."""
    return f"{model}/{rules}"


def training_clouds(config: TrainConfig) -> int:
    """The number of clouds per epoch."""
    count = len(datasets.load(config.data, "train", points=config.sampled_from or config.points, root=config.root))
    count = min(count, config.limit or count)
    return count - round(config.validation * count)


def _epochs(minutes: float, pace: Pace, clouds: int) -> int:
    return max(1, round(60 * minutes / (OVERHEAD * pace.seconds * (clouds // pace.batch))))


def command(contest: Contest, out: str) -> str:
    """The command of a contest."""
    words = ["python -m experiments compare --rules", *contest.rules, "--model", *contest.models, "--data", *contest.data]
    words += [f"--epochs {contest.epochs}"] * bool(contest.epochs) + [f"--minutes {contest.minutes:g}"] * bool(contest.minutes)
    return " ".join([*words, f"--seeds {contest.seeds} --budget {contest.budget.name} --out {out}"])
