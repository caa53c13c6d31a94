"""`python -m experiments compare`: rule sets on the same networks and data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from reqnn.commands.base import OK, Command, busy, console, optional, show_written


@dataclass(kw_only=True)
class Compare(Command):
    """Train the same networks by different rule sets, and compare accuracy upright and rotated, time and size.

    All have the same settings, those of a budget of table 4, for equal epochs, equal time, or both. Runs resume where they were
    stopped, and may be shared among processes, as those of `paper table4`. The time of a training step is measured first,
    interleaved with the original network, and kept in compare/BUDGET-pace.json.

    Examples:
        python -m experiments compare --epochs 6 --out results
        python -m experiments compare --rules paper full --model dgcnn pointnet2 --data 3d-mnist --minutes 10 --seeds 3
    """

    rules: tuple[str, ...] = ("paper", "vector-neurons", "full")
    """The rule sets; your own as my_rules.py:mine."""
    model: tuple[str, ...] = ("dgcnn",)
    """Networks of table 4: dgcnn, pointnet2, pointconv; your own as my_models.py:Net."""
    data: tuple[str, ...] = ("modelnet40",)
    """Data sets of table 4: modelnet40, 3d-mnist."""
    epochs: int = 0
    """Compare after this many epochs."""
    minutes: float = 0.0
    """Compare after about this many minutes of training."""
    seeds: int = 1
    """Number of seeds."""
    budget: Literal["quick", "reduced", "long", "full"] = "reduced"
    """The budget of table 4 whose settings all use, except for its epochs."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")] = "results"
    """The folder for results: compare.md, compare.json, compare.png, and a file for each run in compare/."""
    runs: Annotated[str, tyro.conf.arg(metavar="DIR")] = "runs/compare"
    """The folder for the training runs."""
    max_minutes: Annotated[float | None, optional("FLOAT")] = None
    """Stop training after this many minutes, with a checkpoint; the same command resumes."""
    show: bool = False
    """Show the results without training."""

    def run(self) -> int:
        """Measure the pace, train what is missing, print, write, draw."""
        from experiments.compare.contest import Contest, trials
        from experiments.compare.pace import settled_paces
        from experiments.compare.report import comparison, draw, rows_of
        from experiments.harness.running import run_trials
        from experiments.paper.budgets import get_budget

        contest = Contest(
            rules=self.rules,
            models=self.model,
            data=self.data,
            seeds=self.seeds,
            epochs=self.epochs,
            minutes=self.minutes,
            budget=get_budget(self.budget),
        )
        held = Path(self.out) / "compare" / f"{self.budget}-pace.json"
        with busy("measuring the pace"):
            paces = settled_paces(held, contest.paced(), may_measure=not self.show)
        wanted = trials(contest, paces, self.out)
        code = OK if self.show else run_trials(wanted, self.out, self.runs, self.max_minutes).report()
        rows = rows_of(contest, wanted, self.out)
        table = comparison(contest, rows, paces, self.out)
        table.print(console())
        picture = draw(rows, Path(self.out) / "compare.png")
        show_written([*table.write(self.out), *([picture] if picture else [])])
        return code
