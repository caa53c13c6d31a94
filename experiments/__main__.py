"""Run an experiment by name: ``python -m experiments NAME …``; from a clone, with the packages of ``.[dev]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.alignment.command import BenchAlign
from experiments.autoencoders.command import Autoencoders
from experiments.bench.command import Bench
from experiments.bench_styles import BenchStyles
from experiments.collate import Collate
from experiments.comparators.command import Comparators
from experiments.compare.command import Compare
from experiments.data_efficiency.command import DataEfficiency
from experiments.demo import Demo
from experiments.export_files import ExportFiles
from experiments.frames.command import Frames
from experiments.lost_machine import LostMachine
from experiments.mnist.command import DataDownload, DataMake
from experiments.networks.command import Networks
from experiments.normals.command import Normals
from experiments.paper.command import Paper
from experiments.reconstruct import Reconstruct
from experiments.retrieval import Retrieval
from experiments.screenshots import Screenshots
from experiments.segmentation.command import Segmentation
from experiments.stress.command import Stress
from experiments.symmetric import Symmetric
from experiments.throughput import Throughput
from experiments.weights.command import ExportWeights
from reqnn import cli
from reqnn.commands import COMMANDS, Command

DESCRIPTION = "Experiments with reqnn; results are written to results/."

EXPERIMENTS: dict[str, type[Command]] = {
    "paper": Paper,
    "compare": Compare,
    "comparators": Comparators,
    "data-efficiency": DataEfficiency,
    "segmentation": Segmentation,
    "normals": Normals,
    "autoencoders": Autoencoders,
    "reconstruct": Reconstruct,
    "demo": Demo,
    "data-make": DataMake,
    "data-download": DataDownload,
    "networks": Networks,
    "frames": Frames,
    "export-weights": ExportWeights,
    "bench": Bench,
    "bench-styles": BenchStyles,
    "bench-align": BenchAlign,
    "collate": Collate,
    "export": ExportFiles,
    "retrieval": Retrieval,
    "screenshots": Screenshots,
    "stress": Stress,
    "symmetric": Symmetric,
    "throughput": Throughput,
    "lost-machine": LostMachine,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an experiment, or a command of `reqnn` with the networks of the experiments; the exit codes are those of `reqnn`."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] and words[0] in COMMANDS.keys() - EXPERIMENTS.keys():
        from experiments.zoo import register_networks

        register_networks()
        return cli.main(words, prog="python -m experiments")
    return cli.main(words, EXPERIMENTS, "python -m experiments", DESCRIPTION)


if __name__ == "__main__":
    sys.exit(main())
