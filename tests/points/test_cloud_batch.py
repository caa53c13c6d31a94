"""Clouds of different sizes: no answer depends on the others in the batch, or on padding."""

import pytest
import torch
from torch.utils.data import DataLoader

import reqnn
from reqnn.data import surfaces
from reqnn.points import ball_query, density, farthest_point_sample, knn, principal_frame
from reqnn.train.prediction import predict

SIZES = [20 + 7 * (i * i % 11) for i in range(100)]  # six different ones


@pytest.fixture(scope="module")
def clouds():
    return [surfaces(1, size, seed=i, dtype=torch.float32)[0][0] for i, size in enumerate(SIZES)]


def small(name):
    torch.manual_seed(0)
    net = reqnn.create_model(
        name, equivariant=True, rules="full", width=0.125, num_classes=5, **({"k": 6} if name == "dgcnn" else {})
    )
    with torch.no_grad():
        net.train()(surfaces(8, 40, dtype=torch.float32)[0])
    return net.eval()


@torch.no_grad()
@pytest.mark.parametrize("name", ["dgcnn", "pointnet"])
def test_no_cloud_of_a_padded_batch_gets_another_answer(clouds, name):
    net, batch = small(name), reqnn.collate(clouds)
    alone = torch.cat([net(cloud[None]) for cloud in clouds])
    assert torch.equal(batch.map(net, most=1), alone)  # to the bit
    net, batch = net.double(), batch.to(torch.float64)
    alone = torch.cat([net(cloud[None]) for cloud in batch])
    torch.testing.assert_close(net(batch), alone, rtol=0, atol=1e-12 * float(alone.std()))  # several in a pass
    assert torch.equal(predict(net, batch), net(batch))
    torch.testing.assert_close(reqnn.embed(batch, net), reqnn.embed(list(batch), net))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: farthest_point_sample(x, 9),
        lambda x: knn(x, x, 5),
        lambda x: ball_query(x, x[:, :4], 0.4, 8),
        lambda x: density(x, 0.3),
        principal_frame,
    ],
)
def test_point_functions(clouds, function):
    batch = reqnn.collate(clouds[:20]).to(torch.float64)
    for one, together, cloud in zip(batch.map(function, most=1), batch.map(function), batch, strict=True):
        alone = function(cloud[None])[0]
        assert torch.equal(one, alone)
        torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_padding_cannot_be_used_by_mistake(clouds):
    net, batch = small("pointnet"), reqnn.collate(clouds)
    assert torch.equal(batch.points.isnan().all(-1), ~batch.mask)
    with pytest.raises(reqnn.InputError, match="NaN"):
        net(batch.points)
    with pytest.raises(reqnn.InputError, match=r"resample\(points\)"):
        net.train()(batch)
    net(reqnn.collate(clouds[:1] * 3))  # of one size


def test_resampling_takes_all_points_of_small_clouds(clouds):
    batch = reqnn.collate(clouds[:6])
    found = batch.resample(40, torch.Generator().manual_seed(0))
    assert found.shape == (6, 40, 3)
    for one, cloud in zip(found, batch, strict=True):
        assert len(one.unique(dim=0)) == min(40, len(cloud))
        assert {tuple(p.tolist()) for p in one} <= {tuple(p.tolist()) for p in cloud}


def test_a_loader_of_labelled_clouds(clouds):
    loader = DataLoader([(cloud, i) for i, cloud in enumerate(clouds)], batch_size=10, collate_fn=reqnn.collate)
    for start, (batch, labels) in zip(range(0, 100, 10), loader, strict=True):
        assert labels.tolist() == list(range(start, start + 10))
        assert all(torch.equal(a, b) for a, b in zip(batch, clouds[start:], strict=False))


def test_outputs_of_different_sizes_are_a_list(clouds):
    batch = reqnn.collate(clouds[:4])
    assert all(torch.equal(a, 2 * b) for a, b in zip(batch.map(lambda x: 2 * x), batch, strict=True))
    with pytest.raises(reqnn.InputError, match="row per cloud"):
        batch.map(lambda x: x.sum())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no clouds"),
        ([torch.zeros(2, 3), torch.zeros(2, 4)], "cloud 1 has shape"),
        ([torch.zeros(0, 3)], "cloud 0 is empty"),
    ],
)
def test_what_is_no_batch(given, message):
    with pytest.raises(reqnn.InputError, match=message):
        reqnn.collate(given)
