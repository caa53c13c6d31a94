import ast
import inspect
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from reqnn.errors import InputError
from reqnn.models import list_models
from reqnn.train.config import TrainConfig, load_config, resumed
from reqnn.train.presets import _QUICK_OPTIONS, PRESETS, preset


def test_settings_survive_json(tmp_path: Path) -> None:
    config = TrainConfig(model="pointnet2", options={"npoint": [64, 16]}, lr=0.02, rule_options={"c": 0.5}, limit=7)
    (tmp_path / "config.json").write_text(config.to_json())
    assert load_config(tmp_path / "config.json") == config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("batch", 0),
        ("points", -1),
        ("lr", 0.0),
        ("lr", float("nan")),
        ("min_lr", 0.2),
        ("smoothing", 1.0),
        ("momentum", -0.1),
        ("validation", 0.0),
        ("validation", 1.0),
        ("ema", 1.0),
        ("point_dropout", 1.0),
        ("jitter", -1.0),
        ("stretch", -0.1),
        ("warmup", 100),
        ("limit", 0),
        ("fraction", 0.0),
        ("fraction", 1.5),
        ("accumulate", 3),
        ("devices", 0),
        ("sampled_from", 512),
        ("recalibrate", -1),
        ("seed", -1),
        ("checkpoint_seconds", -1.0),
    ],
)
def test_errors_name_the_setting(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"^({name}|batch) is "):
        TrainConfig(**{name: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "cannot be read"), ("[]", "JSON object"), ('{"learning_rate": 1}', "learning_rate"), ('{"lr": "a"}', "wrong type")],
)
def test_a_file_that_holds_no_settings_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=message):
        load_config(tmp_path / "config.json")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path / "config.json")


def test_what_decides_the_weights_cannot_change_on_the_way() -> None:
    before = TrainConfig(threads=2)
    assert resumed(before, TrainConfig(workers=3, checkpoint_steps=5)).workers == 3
    assert resumed(before, TrainConfig()).threads == 2  # 0 asks for nothing
    options = [{"k": 5, "width": 0.5}, {"width": 0.5, "k": 5}]  # in any order
    assert resumed(*(TrainConfig(options=some) for some in options)).options == options[0]
    for name, value in (("lr", 0.05), ("epochs", 7), ("threads", 1), ("seed", 1), ("options", {"k": 5})):
        with pytest.raises(InputError, match=rf"^{name} is"):
            resumed(before, TrainConfig(**{"threads": 2, name: value}))


def test_every_setting_is_explained() -> None:
    """The string below a field is its help on the command line."""
    body = ast.parse(inspect.getsource(TrainConfig)).body[0].body  # type: ignore[attr-defined]
    explained = {a.target.id for a, b in pairwise(body) if isinstance(a, ast.AnnAssign) and isinstance(b, ast.Expr)}
    assert explained == {item.name for item in fields(TrainConfig)}


def test_the_paper_is_as_published() -> None:
    dgcnn, pointconv, pointnet2 = (preset("paper", name) for name in ("dgcnn", "pointconv", "pointnet2"))
    for config in (dgcnn, pointconv, pointnet2):
        assert (config.epochs, config.batch, config.points, config.smoothing) == (400, 32, 1024, 0.2)
        assert (config.momentum, config.weight_decay) == (0.9, 1e-4)
        assert config.options == {}
        assert (config.scale, config.jitter, config.point_dropout, config.protocol) == (0, 0, 0, "NR")
    assert (dgcnn.optimizer, dgcnn.schedule, dgcnn.lr, dgcnn.min_lr) == ("sgd", "cosine", 0.1, 0.001)
    assert (pointconv.optimizer, pointconv.schedule, pointconv.lr, pointconv.min_lr) == ("sgd", "cosine", 0.01, 0.0001)
    assert (pointnet2.optimizer, pointnet2.schedule, pointnet2.lr) == ("adam", "constant", 1e-4)


@pytest.mark.parametrize("name", list(PRESETS))
def test_settings_override_a_preset(name: str) -> None:
    assert preset(name, "pointnet", lr=0.5, epochs=3).lr == 0.5


def test_a_preset_is_not_changed_by_what_is_done_to_its_settings() -> None:
    preset("quick").rule_options["c"] = 7.0
    assert preset("quick").rule_options["c"] != 7.0


@pytest.mark.parametrize("model", ["dgcnn", "pointnet", "pointnet2"])
def test_no_points_are_refused(model: str) -> None:
    with pytest.raises(InputError, match="points is 0; it must be at least 1"):
        preset("quick", model, points=0)


def test_an_unknown_preset_lists_those_there_are() -> None:
    with pytest.raises(InputError, match="quick"):
        preset("fast")


def test_quick_has_what_learns_soonest() -> None:
    """The winners of docs/experiments.md: farthest points of many, and each rule set's own constants."""
    assert (preset("quick").points, preset("quick").options["sample"]) == (1024, 256)
    few = preset("quick", points=200)
    assert (few.points, "sample" in few.options) == (200, False)
    assert preset("quick", "pointnet").points == 256
    assert [preset("quick", rules=rules).rule_options for rules in ("paper", "full", "vector-neurons")] == [
        {"c": 0.1},
        {"unit": "pool"},
        {},
    ]
    assert preset("paper").rule_options == {}


@pytest.mark.parametrize("equivariant", [False, True])
@pytest.mark.parametrize("model", [name for name in list_models(revisable=True) if "dropout" in _QUICK_OPTIONS.get(name, {})])
def test_quick_networks_take_the_clouds_of_the_preset(model: str, equivariant: bool) -> None:
    from reqnn.train.run import build_network

    config = preset("quick", model, equivariant=equivariant)
    points = torch.randn(2, config.points, 3, generator=torch.Generator().manual_seed(0))
    places = (config.points,) if model.endswith("_parts") else ()
    assert build_network(config, 10).eval()(points).shape == (2, *places, 10)
