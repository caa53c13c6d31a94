"""`python -m experiments paper`: the paper's tables and figures, measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from reqnn.commands.base import OK, Command, busy, console, optional, show_written
from reqnn.errors import InputError

if TYPE_CHECKING:
    from experiments.harness.table import Table

RESULTS = "results"


@dataclass(kw_only=True)
class Paper(Command):
    """Measure a table of the paper and show it beside the printed values; differences are marked ≠.

    The tables:
        table1: rotation equivariance and permutation invariance of each operation, before and after revision (seconds)
        table2: parameters, multiply-adds and FLOPs of the four networks and their REQNNs (half a minute)
        table3: which network contains which operation (seconds)
        table4: accuracy on rotated shapes, originals and REQNNs, ModelNet40 and 3D MNIST; with --budget the networks
            without a result are trained and tested first (quick: minutes; reduced: 2 hours in all; long: 2 hours each;
            longer: 4; longest: 6; wide: 1 to 2; wider: 1 more; full: GPUs)
        table5: ModelNet40 learned without rotations and tested with, nine ordinary networks and eight REQNNs; with --budget
            what has no result is trained and tested first (reduced: under 3 hours in all), those of table 4 for both
        figure1: a cloud and a feature inside the network, both rotated; trains two networks for half a minute each
        figure2: features inside the network are rotated and decoded; trains two networks for a minute each
        all: everything, also on one page (--out): paper.html and paper.md, with the figures in that folder

    Runs of table 4 are resumed. Several processes or machines may share the work: run the same command on shared folders.

    Examples:
        python -m experiments paper table1
        python -m experiments paper table2 --out results
        python -m experiments paper table4 --budget reduced --only modelnet40/dgcnn/reqnn --out results --max-minutes 60
        python -m experiments paper table4 --out results
        python -m experiments paper table5 --budget reduced --out results
        python -m experiments paper figure2 --out results
        python -m experiments paper all --out results
    """

    table: tyro.conf.Positional[Literal["table1", "table2", "table3", "table4", "table5", "figure1", "figure2", "all"]]
    """Which table or figure; all of them with "all"."""

    out: Annotated[str | None, optional("DIR")] = None
    """Folder for the tables, as Markdown and JSON, and for the results of table 4 (default for these: results)."""

    budget: Annotated[
        Literal["quick", "reduced", "long", "longer", "longest", "wide", "wider", "full"] | None,
        optional("{quick,reduced,long,longer,longest,wide,wider,full}"),
    ] = None
    """table4, table5: train what is missing with this budget; all: show it. Default: the one with most results."""

    only: Annotated[tuple[str, ...], optional("CELL [CELL ...]")] = ()
    """table4, table5: train these cells only, in this order: DATA/NETWORK/TRAINING or its beginning, * for any part."""

    runs: str = "runs/table4"
    """table4, table5: the folder for the training runs."""

    max_minutes: Annotated[float | None, optional("FLOAT")] = None
    """table4, table5: stop training after this many minutes, with a checkpoint; the same command resumes."""

    figure_runs: str = "runs/figures"
    """figure1, figure2: the folder for the training runs; they are resumed."""

    def run(self) -> int:
        """Measure, print, write."""
        from experiments.paper import contents as paper

        trained = self.table in ("table4", "table5") and self.budget is not None
        if (self.only or self.max_minutes is not None) and not trained:
            raise InputError("--only and --max-minutes are for training: python -m experiments paper table4 --budget NAME")
        results = self.out or RESULTS
        tables: dict[str, Callable[[], Table]] = {
            "table1": paper.table1,
            "table2": paper.table2,
            "table3": paper.table3,
            "table4": lambda: paper.table4(results, self.budget),
            "table5": lambda: paper.table5(results, self.budget),
        }
        code = self._train(results) if trained else OK
        screen = console()
        shown = []
        for name in tables if self.table == "all" else [self.table] if self.table in tables else []:
            with busy(f"measuring {name}"):
                shown.append(tables[name]())
            shown[-1].print(screen)
            if self.out is not None:
                show_written(shown[-1].write(self.out))
        for name in ("figure1", "figure2"):
            if self.table in (name, "all"):
                self._figure(name)
        if self.table == "all" and self.out is not None:
            from experiments.paper.page import find_pictures, write_page

            show_written(write_page(shown, find_pictures(self.out), self.out))
        return code

    def _figure(self, name: str) -> None:
        """Train what a figure needs, measure, draw."""
        from experiments.paper import contents as paper

        screen = console()
        figure = getattr(paper, name)(self.figure_runs)
        figure.print(screen)
        show_written(figure.write(self.out or RESULTS))

    def _train(self, results: str) -> int:
        """Train and test the cells without a result; report what is left, and why."""
        from experiments.harness.running import run_trials
        from experiments.paper import budgets, experiments, table5_systems

        assert self.budget is not None
        budget = budgets.get_budget(self.budget)
        if self.table == "table4":
            wanted = [budgets.trial_of(cell, budget) for cell in experiments.select(self.only)]
        else:
            wanted = [table5_systems.trial_of(row, budget) for row in table5_systems.select(self.only)]
        return run_trials(wanted, results, self.runs, self.max_minutes).report()
