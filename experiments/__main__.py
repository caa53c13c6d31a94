"""Run an experiment by name: ``python -m experiments NAME …``; from a clone, with the packages of ``.[dev]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.alignment.command import BenchAlign
from experiments.autoencoders.command import Autoencoders
from experiments.bench.command import Bench
from experiments.bench_styles import BenchStyles
from experiments.comparators.command import Comparators
from experiments.compare.command import Compare
from experiments.data_efficiency.command import DataEfficiency
from experiments.export_files import ExportFiles
from experiments.frames.command import Frames
from experiments.networks.command import Networks
from experiments.normals.command import Normals
from experiments.paper.command import Paper
from experiments.retrieval import Retrieval
from experiments.segmentation.command import Segmentation
from experiments.stress.command import Stress
from experiments.symmetric import Symmetric
from experiments.throughput import Throughput
from experiments.weights.command import ExportWeights
from reqnn import cli
from reqnn.commands.base import Command

DESCRIPTION = "Experiments with reqnn; results are written to results/."

EXPERIMENTS: dict[str, type[Command]] = {
    "paper": Paper,
    "compare": Compare,
    "comparators": Comparators,
    "data-efficiency": DataEfficiency,
    "segmentation": Segmentation,
    "normals": Normals,
    "autoencoders": Autoencoders,
    "networks": Networks,
    "frames": Frames,
    "export-weights": ExportWeights,
    "bench": Bench,
    "bench-styles": BenchStyles,
    "bench-align": BenchAlign,
    "export": ExportFiles,
    "retrieval": Retrieval,
    "stress": Stress,
    "symmetric": Symmetric,
    "throughput": Throughput,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an experiment; the exit codes are those of `reqnn`."""
    return cli.main(arguments, EXPERIMENTS, "python -m experiments", DESCRIPTION)


if __name__ == "__main__":
    sys.exit(main())
