"""Part segmentation: the loss, mean IoU against a plain loop, a run with resume, and evaluation on rotated objects."""

import json
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

import reqnn.data
from reqnn.cli import main
from reqnn.data.dataset import PointClouds
from reqnn.data.sets import SETS, NamedSet
from reqnn.errors import InputError, Stopped
from reqnn.train import evaluate_segmentation, fit, load_run, preset
from reqnn.train import loop as steps
from reqnn.train.batches import Batches, targets
from reqnn.train.evaluation import task_of
from reqnn.train.task import Segmentation, make_task
from reqnn.train.weights import load_tensors

NAMES = ("ball 1", "ball 2", "rod 1", "rod 2", "rod 3")
CLASSES = ("ball", "rod")


def shapes(count, seed=0, split="train", points=24):
    """Balls and rods; a part is a range of the distance to the centre."""
    generator = torch.Generator().manual_seed(seed)
    cloud = torch.randn(count, points, 3, generator=generator)
    labels = torch.arange(count) % 2
    cloud[labels == 1] *= torch.tensor([0.1, 1.0, 0.1])
    distance = cloud.norm(dim=-1)
    rank = distance.argsort(1).argsort(1)
    parts = torch.where(labels[:, None] == 0, (2 * rank) // points, 2 + (3 * rank) // points)
    return PointClouds(cloud, labels, CLASSES, "shapes", split, "y", parts=parts, part_names=NAMES)


SMALL = {"model": "pointnet2_parts", "task": "segmentation", "accelerator": "cpu", "ema": 0.9}
SMALL |= {"options": {"width": 0.0625, "npoint": [12, 4], "radius": [0.8, 1.6], "nsample": [6, 4], "dropout": 0.3}}


def plain_miou(answers, parts, kinds):
    """As the literature defines it, part by part."""
    found = []
    for kind in kinds:
        given, wanted = set((answers == kind).nonzero().flatten().tolist()), set((parts == kind).nonzero().flatten().tolist())
        found.append(len(given & wanted) / len(given | wanted) if given | wanted else 1.0)
    return sum(found) / len(found)


def test_scores_are_the_mean_iou_of_the_categorys_parts():
    clouds = shapes(6)
    clouds.parts[1] = 3  # parts that are absent
    task = task_of(clouds)
    assert task.part_classes == (0, 0, 1, 1, 1)
    logits = torch.randn(6, 24, 5, generator=torch.Generator().manual_seed(3))
    logits[1, :, 3] += 20
    labels = torch.cat([clouds.labels[:, None], clouds.parts], dim=1)
    kinds = [(0, 1), (2, 3, 4)]
    expected = []
    for i in range(6):
        own = kinds[i % 2]
        answers = torch.tensor(own)[logits[i][:, list(own)].argmax(-1)]
        expected.append(plain_miou(answers, clouds.parts[i], own))
    scores = task.scores(logits, clouds.points, labels)
    torch.testing.assert_close(scores, torch.tensor(expected, dtype=torch.float64))
    assert scores[1] == 1
    loss = F.cross_entropy(logits.flatten(0, 1), clouds.parts.flatten())
    torch.testing.assert_close(task.loss(logits, clouds.points, labels), loss)
    with pytest.raises(InputError, match=r"segmentation needs logits \(B, N, 5\)"):
        task.loss(logits[:, 0], clouds.points, labels)


def test_the_category_is_an_input():
    points, category = Segmentation(part_classes=(0, 0, 1)).inputs(torch.zeros(2, 4, 3), torch.tensor([[1, 2], [0, 0]]))
    assert points.shape == (2, 4, 3)
    assert category.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_settings(settings):
    config = settings(**SMALL, smoothing=0.1)
    assert make_task(config, shapes(4)) == Segmentation(smoothing=0.1, part_classes=(0, 0, 1, 1, 1))
    assert (preset("quick", "dgcnn_parts").task, preset("quick", task="segmentation").model) == ("segmentation", "dgcnn_parts")
    with pytest.raises(InputError, match=r"point_dropout is .*; it must be 0 for segmentation"):
        settings(**SMALL, point_dropout=0.5)
    with pytest.raises(InputError, match="shapes has no parts to learn"):
        targets(replace(shapes(4), parts=None), config)


def test_parts_follow_their_points_into_batches(settings):
    clouds = shapes(32)
    points, labels = Batches(clouds, settings(**SMALL, points=10, sampled_from=20))[0]
    assert (points.shape, labels.shape) == ((16, 10, 3), (16, 11))
    for cloud, category, parts in zip(points, labels[:, 0], labels[:, 1:], strict=True):
        same = (clouds.points[:, :20, None] == cloud).all(-1)  # cloud, its point, drawn point
        (which,) = same.any(1).all(1).nonzero().flatten().tolist()
        assert int(clouds.labels[which]) == int(category)
        assert torch.equal(clouds.parts[which, same[which].int().argmax(0)], parts)


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_a_stopped_run_resumes_to_the_same_weights(settings, tmp_path, rules, monkeypatch):
    train, validation = shapes(48), shapes(16, seed=1)
    config = settings(**SMALL, equivariant=True, rules=rules, epochs=3, sampled_from=24, points=20, jitter=0.01)
    through = fit(replace(config, out=str(tmp_path / "through")), train, validation, quiet=True)
    agreed = steps.Training.agreed
    monkeypatch.setattr(steps.Training, "agreed", lambda self, asked: self.progress.step == 4 or agreed(self, asked))
    with pytest.raises(Stopped):
        fit(config, train, validation, quiet=True)
    monkeypatch.undo()
    run = fit(config, train, validation, resume=True, quiet=True)
    for name in ("best.safetensors", "last.safetensors"):
        expected, found = load_tensors(through.folder / name)[0], load_tensors(run.folder / name)[0]
        assert set(expected) == set(found)
        assert all(torch.equal(expected[key], found[key]) for key in expected)
    assert run.classes == NAMES
    assert run.metrics["best_validation_miou"] == max(
        float(line.split(",")[6]) for line in (run.folder / "log.csv").read_text().splitlines()[1:]
    )
    with pytest.raises(InputError, match="training clouds are not those"):
        fit(config, replace(train, parts=train.parts.flip(1) * 0 + train.parts.amin(1, keepdim=True)), validation, resume=True)


def test_evaluation_on_rotated_objects(settings):
    """A revised network answers alike in all orientations; an ordinary one does not."""
    test = shapes(10, seed=2, split="test")
    results = {}
    for equivariant in (True, False):
        config = settings(**SMALL, equivariant=equivariant, rules="full", epochs=8, out=None)
        config = replace(config, out=f"{settings().out}-{equivariant}")
        run = fit(config, shapes(48), shapes(16, seed=1), quiet=True)
        net = load_run(run.folder).model
        results[equivariant] = [evaluate_segmentation(net, test, protocol, 3, batch=4) for protocol in ("NR", "AR")]
    upright, rotated = results[True]
    assert rotated.inconsistent == 0
    assert rotated.instance_miou == pytest.approx(upright.instance_miou, abs=1e-12)
    assert rotated.class_miou == pytest.approx(sum(rotated.per_class.values()) / 2)
    assert upright.instance_miou > 0.5
    assert results[False][1].inconsistent > 0.1
    assert results[False][1].logit_change > 100 * rotated.logit_change


def test_the_commands(settings, monkeypatch, tmp_path, capsys):
    """Train with the set's own validation split; test, print, draw."""
    asked = []

    def embedded(request):
        asked.append(request.split)
        count = {"train": 48, "val": 12, "test": 10}[request.split]
        return shapes(count, len(request.split), request.split, request.points)

    monkeypatch.setitem(SETS, "shapes", NamedSet("shapes", "", validation=True, embedded=embedded))
    out = str(tmp_path / "run")
    words = [
        "--model",
        "pointnet2_parts",
        "--equivariant",
        "--data",
        "shapes",
        "--points",
        "24",
        "--epochs",
        "1",
        "--batch",
        "16",
    ]
    assert main(["train", *words, "--options", json.dumps(SMALL["options"]), "--accelerator", "cpu", "--out", out]) == 0
    assert asked == ["train", "val"]
    assert "miou" in capsys.readouterr().out
    assert main(["eval", out, "--copies", "2"]) == 0
    assert "% of points" in capsys.readouterr().out
    assert (tmp_path / "run" / "evaluation" / "parts.png").stat().st_size > 1000
    report = json.loads((tmp_path / "run" / "evaluation" / "evaluation.json").read_text())
    assert report["runs"][0]["results"][1]["inconsistent"] <= 0.01
    assert reqnn.data.load("shapes", "test", 24).split == "test"
