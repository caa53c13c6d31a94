import pytest

from experiments.bench.growth import exponent_spread, fit_exponent, growth_of_models, growth_record, measure_growth, radius_for
from experiments.bench.kernels import BALL, FPS, KNN
from experiments.bench.variants import FUSED, ORIGINAL, clouds
from reqnn.points import ball_query


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.3, 2.0])
def test_fit(exponent):
    sizes = [1000, 2000, 4000, 32000]
    seconds = [3e-6 * n**exponent for n in sizes]
    assert fit_exponent(sizes, seconds) == pytest.approx(exponent, abs=1e-12)
    noisy = [[t, 2 * t, t / 2] for t in seconds]  # a repeat that is slower throughout grows no faster
    assert exponent_spread(sizes, noisy) == pytest.approx((exponent,) * 3, abs=1e-12)


def test_spread_of_exponents():
    linear_and_square = [[1.0, 1.0, 1.0], [2.0, 4.0, 2.0], [4.0, 16.0, 4.0]]
    assert exponent_spread([1, 2, 4], linear_and_square) == pytest.approx((1.0, 1.0, 1.5))


def test_the_content_of_a_ball_stays_the_same():
    contents = []
    for points in (1024, 4096, 8192):
        xyz = clouds(1, points)[0]
        index = ball_query(xyz, xyz[:, :64], radius_for(points), 128)
        contents.append(float((index != index[..., :1]).sum(-1).float().mean()))
    assert min(contents) > 5
    assert max(contents) < 1.3 * min(contents)


def test_records(settings):
    records = measure_growth(settings, lambda message: None)
    names = [r["name"] for r in records]
    assert names[:3] == [KNN, BALL, FPS]
    for r in records:
        assert r["sizes"] == [32, 64, 128]
        assert [len(values) for values in r["seconds"]] == [2, 2, 2]
        assert set(r["exponent"]) == {"median", "low", "high"}
        assert r["skipped"] is None


def test_two_sizes_give_no_exponent():
    record = growth_record("x", [(1, [1.0]), (2, [2.0])])
    assert record["exponent"] is None
    assert "three sizes" in record["skipped"]


def test_networks_grow_at_their_smallest_batch(timed):
    records = [
        timed(variant, [1e-3 * n, 2e-3 * n], batch=batch, points=n)
        for variant in (ORIGINAL, FUSED)
        for batch in (1, 4)
        for n in (256, 1024, 512)
    ]
    records.append(timed(ORIGINAL, [], points=2048, batch=1))
    found = growth_of_models(records)
    assert [r["name"] for r in found] == ["dgcnn, original, batch 1", "dgcnn, REQNN fused, batch 1"]
    assert found[0]["sizes"] == [256, 512, 1024]
    assert found[0]["exponent"]["median"] == pytest.approx(1.0)
