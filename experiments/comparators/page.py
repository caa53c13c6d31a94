"""The tables of the comparators, and the page of the documentation that holds them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from experiments.comparators.change import change, moved, reordered, rotated, rotations, settled, shapes_to_audit, verdict
from experiments.comparators.sources import capsule_errors, prin_errors
from experiments.harness.table import Cell, Table
from reqnn import audit
from reqnn.points import frame_ambiguity
from reqnn.revision.report import count_parameters
from reqnn.zoo import create_model

BALLS: dict[str, Any] = {"npoint": (64, 16), "nsample": (16, 8)}
NETWORKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "pointnet": ("PointNet", {}, "invariant to the order of the points"),
    "pointnet2": ("PointNet++", BALLS | {"radius": (0.4, 0.8)}, "nothing about rotations"),
    "point2sequence": ("Point2Sequence", {"npoint": 48, "nsample": (4, 8, 16, 24)}, "nothing about rotations"),
    "kd_network": ("KD-Network", {"depth": 9}, "nothing about rotations"),
    "rscnn": ("RS-CNN", BALLS | {"radius": (0.4, 0.8)}, "robust to rotations, for a variant with frames from normals"),
    "dgcnn": ("DGCNN", {"k": 10}, "invariant to the order of the points"),
    "prin": ("PRIN", {"bandwidth": 8, "shells": 16}, "invariant to rotations up to discretisation"),
    "qe_capsule": ("QE-Capsule", {"npoint": 48}, "equivariant to rotations given local frames, invariant to the order"),
}
"""Network → its name, the sizes that are audited, and what its publication claims."""

REVISED = ("pointnet", "pointnet2", "point2sequence", "kd_network", "rscnn", "dgcnn")
WIDTH = 0.25


def tables(shapes: int) -> list[Table]:
    """All measurements."""
    points, name = shapes_to_audit(shapes)
    return [ordinary_table(points, name), prin_table(points[:6]), capsule_table(), revised_table(points)]


def ordinary_table(points: Tensor, data: str) -> Table:
    """Claims and measurements of the ordinary networks."""
    rows, records = [], []
    kinds = {"rotation": rotated(rotations(4)), "order": reordered(3, points.shape[1]), "translation": moved(3)}
    for model, (name, options, claim) in NETWORKS.items():
        torch.manual_seed(0)
        net = settled(create_model(model, width=WIDTH, **options), points)
        changes = {kind: change(net, points, done) for kind, done in kinds.items()}
        report = audit(net, points[:4], rotations=2, permutations=2, vector_axis=-1, modes=("eval",))
        first = {"rotation": report.first_rotation_failure, "order": report.first_permutation_failure}
        rows.append([Cell(name), Cell(claim), *(Cell(f"{verdict(value)} ({value:.0e})") for value in changes.values())])
        rows[-1] += [Cell(first[kind] or "–") for kind in first]
        records.append({"network": model, "claim": claim, **changes, "first failing layer": first})
    return Table(
        "comparators",
        "What holds",
        ["network", "its publication claims", *(f"{kind}" for kind in kinds), "first layer not invariant", "… to the order"],
        rows,
        records,
        notes=[
            "In brackets: root mean square change of the outputs, in units of their difference between shapes; 1 means that "
            f"they depend on the orientation as much as on the shape. {len(points)} test shapes of {data}, "
            f"{points.shape[1]} points, float64, fresh weights of a quarter of the width, statistics of these shapes. "
            "Exact: below 1e-9; approximate: below 0.5. Translations by 0.1.",
            "The layers are those of `reqnn.audit`, which looks for features that stay or rotate on an axis of size 3. It does "
            "not see that a signal on a grid or the pose of a capsule rotates: for these see the next two tables.",
            "KD-Network and DGCNN depend on the order of the points through ties, of coordinates on flat surfaces along an "
            "axis and of distances; the others that do begin their sampling at the first point. PRIN centres the cloud.",
            "Of trained networks, accuracies upright and rotated: `results/table5.md`.",
        ],
    )


def prin_table(points: Tensor) -> Table:
    """Where PRIN's error comes from."""
    records = [prin_errors(points, bandwidth) for bandwidth in (4, 8, 16)]
    heads = [name for name in records[0] if name != "bandwidth"]
    return Table(
        "prin",
        "PRIN: where the error arises",
        ["bandwidth", *heads],
        [[Cell(str(record["bandwidth"])), *(Cell(f"{record[head]:.0e}") for head in heads)] for record in records],
        records,
        notes=[
            "Rotated: the points by one step of the grid about z (step); the signal on the sphere, in its spectrum, which is "
            "exact (signal); the points (points). Compared: the features by an exact mean over SO(3) (mean), or by the maximum "
            "over the grid, as published (max), and the outputs (logits).",
            "Convolutions and steps about z are exact. Aliases of ReLU cost little (signal, mean), the maximum over the grid "
            "more (signal, max), and so does the sampling of the points on the grid (points, mean).",
        ],
    )


def capsule_table() -> Table:
    """What QE-Capsule's equivariance is worth with frames that must be estimated."""
    points, _ = shapes_to_audit(40, 1024)
    cases = ((torch.float64, 32), (torch.float32, 32), (torch.float32, 12))
    records = [capsule_errors(points, dtype, neighbours) for dtype, neighbours in cases]
    rows = [
        [
            *(Cell(str(record[key])) for key in ("dtype", "neighbours")),
            *(Cell(f"{record[key]:.0e}") for key in ("given frames", "estimated frames")),
            *(Cell(f"{record[key]:.1%}") for key in ("frames that change", "shapes with such frames")),
        ]
        for record in records
    ]
    return Table(
        "qe_capsule",
        "QE-Capsule: frames given and frames estimated",
        [
            *("precision", "neighbours of a frame", "frames rotated with the points", "frames estimated again"),
            *("frames that change by over 1°", "shapes with such frames"),
        ],
        rows,
        records,
        notes=[
            f"Change of the outputs as above; {len(points)} shapes of 1024 points, two rotations.",
            "Given frames that rotate with the points the network is exact to rounding: this is what its authors test, whose "
            "frames are stored and rotated. Estimated again from the rotated points, frames on flat parts of a shape are "
            "decided by rounding, more of them if fewer neighbours decide, and the outputs change with them.",
        ],
    )


def revised_table(points: Tensor) -> Table:
    """The same networks after `reqnn.revise`."""
    rows, records = [], []
    for model in REVISED:
        name, options, _ = NETWORKS[model]
        for rules in ("paper", "full"):
            torch.manual_seed(0)
            net = settled(create_model(model, equivariant=True, rules=rules, width=WIDTH, **options), points)
            report = audit(net, points[:4], rotations=2, permutations=2, modes=("eval",))
            found = {
                "rotation": change(net, points, rotated(rotations(4))),
                "order": change(net, points, reordered(2, points.shape[1])),
                "largest error of a layer": max(report.rotation_error, report.permutation_error),
                "parameters": count_parameters(net),
            }
            texts = [f"{verdict(found[kind])} ({found[kind]:.0e})" for kind in ("rotation", "order")]
            texts += [f"{found['largest error of a layer']:.0e}", f"{found['parameters']:,}"]
            rows.append([Cell(text) for text in (name, rules, *texts)])
            records.append({"network": model, "rules": rules, **found})
    return Table(
        "revised",
        "The same networks, revised",
        ["network", "rules", "rotation", "order", "largest error in the audit", "parameters"],
        rows,
        records,
        notes=[
            "KD-Network's tree, RS-CNN's relations and the coordinates that Point2Sequence's last layers read are in the PCA "
            "frame; Point2Sequence's LSTM reads squared norms of quaternion features; RS-CNN lifts offsets in both layers.",
            f"The PCA frames of {int(frame_ambiguity(points).sum())} of the {len(points)} shapes are ambiguous (symmetry).",
            "PRIN and QE-Capsule are refused by `reqnn.revise`: single coordinates choose the cells of a grid, and a "
            'mask compares the entries of frames with 0. The error says so, and names the way out, `rules="frames"`.',
        ],
    )


def page(found: list[Table]) -> str:
    """The page, in Markdown."""
    head = [
        "# The networks of Table 5: what is invariant, and what is claimed",
        "",
        "Table 5 of the REQNN paper compares its network with eight others. All of them are in the zoo (`reqnn models`), as "
        "ordinary networks in plain PyTorch. This page says which of them keep their answers when a cloud is rotated, "
        "reordered or moved, exactly, approximately or not at all, and where errors arise. It is written by "
        "`python -m experiments comparators`.",
        "",
    ]
    return "\n".join([*head, *(table.to_markdown(level=2) for table in found), found[0].stamp()]) + "\n"
