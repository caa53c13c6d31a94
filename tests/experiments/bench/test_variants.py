from dataclasses import replace

import pytest
import torch

from experiments.bench import models
from experiments.bench.measure import Timing
from experiments.bench.models import measure_models, step
from experiments.bench.settings import MODELS, Settings
from experiments.bench.variants import (
    FUSED,
    INFERENCE,
    MODES,
    ORIGINAL,
    PLAIN,
    RULE_SETS,
    VARIANTS,
    build,
    clouds,
    infer,
    train_step,
)
from reqnn.errors import InputError
from reqnn.kernels import run


def small(model, name):
    options = {"dgcnn": {"k": 4}}.get(model, {"npoint": (16, 8), "nsample": (8, 8)})
    return build(model, name, width=0.0625, **options)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch", [1, 3])
def test_every_variant_runs(model, batch):
    xyz, labels = clouds(batch, 24)
    assert (xyz.dtype, xyz.shape, labels.shape) == (torch.float32, (batch, 24, 3), (batch,))
    for name in (*VARIANTS, *RULE_SETS):
        variant = small(model, name)
        with variant.switched():
            assert infer(variant.network, xyz).shape == (batch, 40)
            assert not variant.network.training
            loss = train_step(variant.network, xyz, labels)
        assert torch.isfinite(loss)
        gradients = [p.grad for p in variant.network.parameters()]
        assert all(g is not None for g in gradients), name
        assert infer(variant.network, xyz).grad_fn is None


def test_variants_are_what_they_say():
    plain, fused = small("dgcnn", PLAIN), small("dgcnn", FUSED)
    assert (plain.kernels, fused.kernels) == (False, True)
    xyz = clouds(2, 24)[0]
    plain.network.load_state_dict(fused.network.state_dict())
    torch.testing.assert_close(infer(plain.network, xyz), infer(fused.network, xyz), rtol=1e-3, atol=1e-4)


def test_kernels_are_switched_off_and_back():
    with run.switched(False):
        assert not run.enabled
        with run.switched(True):
            assert run.enabled
    assert run.enabled


def test_records_of_models(settings):
    records = measure_models(settings, lambda message: None)
    assert [(r["mode"], r["variant"]) for r in records] == [(mode, name) for mode in MODES for name in VARIANTS]
    for r in records:
        assert (r["model"], r["batch"], r["points"], r["skipped"]) == ("dgcnn", 2, 24, None)
        assert len(r["seconds"]) == 2
    assert records[0]["relative"] == {"median": 1.0, "low": 1.0, "high": 1.0}


def test_too_few_points_are_left_out_with_the_reason():
    settings = Settings(models=("pointnet2",), batch=(2,), points=(24,), width=0.0625, repeats=1, threads=1)
    records = measure_models(settings, lambda message: None)
    assert all("512" in r["skipped"] and r["seconds"] == [] and r["relative"] is None for r in records)


def test_a_slow_network_is_not_tried_on_larger_clouds(monkeypatch, settings):
    asked = []

    def interleave(calls, repeats, max_seconds):
        asked.append(calls)
        return [Timing(call.name, [4.0], warm_up=4.0) for call in calls]

    monkeypatch.setattr(models, "interleave", interleave)
    measure_models(replace(settings, batch=(1, 4), points=(32, 64)), lambda message: None)
    expected = [calls[0].expected for calls in asked]
    assert expected == [0.0, 4.0, 4.0, 4.0] * 2  # 32, 64, 128, 256 points in all: twice as many, half of that for sure


def test_step_makes_its_clouds_at_once(settings):
    call = step(small("dgcnn", ORIGINAL), INFERENCE, 2, 24, 0)
    assert torch.equal(call(), call())


def test_settings():
    assert Settings(batch=(4, 1), points=(8, 2)).sizes() == [(1, 2), (1, 8), (4, 2), (4, 8)]
    assert Settings(batch=(4,), points=(256, 1024)).target_sizes() == [(4, 1024)]
    assert Settings(batch=(4,), points=(256, 512)).target_sizes() == [(4, 256), (4, 512)]
    assert Settings(repeats=9).quick().repeats == 3
    for wrong in ({"batch": ()}, {"points": (0,)}, {"threads": 0}, {"max_seconds": 0.0}, {"what": ()}, {"models": ()}):
        with pytest.raises(InputError, match="--"):
            Settings(**wrong)
