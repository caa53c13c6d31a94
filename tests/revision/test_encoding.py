"""`net.encode` under similarity transformations: in float64, with trained statistics, and with a control that must fail."""

import pytest
import torch
from torch import nn

import reqnn
from reqnn.data import surfaces

R = reqnn.quaternion.random_matrix(3, torch.Generator().manual_seed(0), torch.float64)
SHIFT, SIZE = torch.tensor([3.0, -5.0, 2.0], dtype=torch.float64), 7.0
CLOUDS = surfaces(3, 64)[0]


class ByPoint(nn.Module):
    """Channels first, a map of each point, no head: all outputs are coordinates."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn, self.conv2 = nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.Conv1d(8, 3, 1)

    def forward(self, x):
        return self.conv2(torch.relu(self.bn(self.conv1(x))))


def network(name):
    torch.manual_seed(0)
    if name == "by_point":
        net = reqnn.revise(ByPoint(), CLOUDS.float().mT, to_real=False, check=False)
    else:
        model, rules = name.split("-")
        more = {"dgcnn": {"k": 8}, "pointnet2": {"npoint": (16, 8), "nsample": (8, 8)}, "pointnet": {}}[model]
        net = reqnn.create_model(model, equivariant=True, rules=rules, num_classes=5, width=0.125, **more)
    net = net.double().train()
    with torch.no_grad():
        for _ in range(60 if name.endswith("paper") else 1):  # until the statistics are those of the clouds
            net(CLOUDS.mT if name == "by_point" else CLOUDS)
    return net.eval()


@pytest.mark.parametrize(
    "name", ["pointnet-full", "pointnet-paper", "dgcnn-full", "dgcnn-paper", "pointnet2-full", "pointnet2-paper", "by_point"]
)
def test_similarity(name):
    net = network(name)
    given = (lambda x: x.mT.contiguous()) if name == "by_point" else (lambda x: x)
    moved = SIZE * CLOUDS @ R.mT + SHIFT
    with torch.no_grad():
        a, b = net.encode(given(CLOUDS)), net.encode(given(moved[:, torch.randperm(64)]))
    assert a["vectors"].shape[0] == 3
    assert a["vectors"].shape[2] == 3
    torch.testing.assert_close(b["invariant"], a["invariant"], rtol=0, atol=1e-9)
    torch.testing.assert_close(b["vectors"], a["vectors"] @ R.mT, rtol=0, atol=1e-9)
    torch.testing.assert_close(b["center"], SIZE * (R @ a["center"][..., None])[..., 0] + SHIFT, rtol=0, atol=1e-12)
    torch.testing.assert_close(b["scale"], SIZE * a["scale"], rtol=1e-12, atol=0)
    # the control: what must rotate does, and clouds differ
    assert (b["vectors"] - a["vectors"]).abs().max() > 1e-3 * a["vectors"].abs().max() > 0
    assert (a["invariant"][0] - a["invariant"][1]).abs().max() > 1e-6


def test_features_whose_first_axis_is_not_the_batch_are_refused_for_several_clouds():
    """Point2Sequence reads all regions of all clouds in one batch: their mean would mix the clouds."""
    torch.manual_seed(0)
    sizes = {"npoint": 24, "nsample": (4, 8, 12, 16)}
    net = reqnn.create_model("point2sequence", equivariant=True, rules="full", width=0.125, **sizes).double().eval()
    with torch.no_grad():
        with pytest.raises(reqnn.InputError, match="one by one"):
            net.encode(CLOUDS)
        a, b = net.encode(CLOUDS[:1]), net.encode(SIZE * CLOUDS[:1] @ R[:1].mT + SHIFT)
    torch.testing.assert_close(b["vectors"], a["vectors"] @ R[:1].mT, rtol=0, atol=1e-9)


def test_decoded_vectors_return_to_the_scene():
    """center + scale · mean of points that the network maps to themselves is the centre of the cloud as given."""
    net = network("by_point")
    code = net.encode(CLOUDS.mT + 1, at="")
    assert torch.allclose(code["center"], CLOUDS.mean(1) + 1)
    assert code["vectors"].shape == (3, 1, 3)


def test_real_features_are_refused():
    with pytest.raises(reqnn.InputError, match="real features"):
        network("pointnet-full").encode(CLOUDS, at="head.fc2")


@pytest.mark.parametrize("given", [torch.zeros(4, 5, dtype=torch.float64), [[0.0, 1.0, 2.0]], "cloud.ply"])
def test_what_is_no_batch_of_clouds_is_refused(given):
    net = network("pointnet-full")
    for call in (net.encode, net.predict):
        with pytest.raises(reqnn.InputError, match="a tensor of 3 axes is needed"):
            call(given)


class ChannelsLast(nn.Module):
    """A Linear for each point, (B, N, C), then a maximum."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(3, 8), nn.Linear(8, 6), nn.Linear(6, 5)

    def forward(self, x):
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))).amax(1))


def test_channels_on_the_last_axis():
    """The mean is taken over the points, wherever the layer has its channels."""
    torch.manual_seed(0)
    net = reqnn.revise(ChannelsLast(), CLOUDS.float(), rules="full", to_real="second").double().eval()
    with torch.no_grad():
        a, b = net.encode(CLOUDS), net.encode(CLOUDS[:, torch.randperm(64)] @ R.mT)
    assert a["vectors"].shape == (3, 8, 3)
    torch.testing.assert_close(b["vectors"], a["vectors"] @ R.mT, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rules", ["paper", "full"])
def test_coordinates_that_become_real_at_once_are_refused(rules):
    """Their mean is the centroid, 0 but for rounding: a vector without a direction."""
    net = reqnn.revise(ChannelsLast(), CLOUDS.float(), rules=rules, to_real="first", check=False).double().eval()
    with pytest.raises(reqnn.InputError, match="coordinates still"):
        net.encode(CLOUDS)


class OfLists(nn.Module):
    """Clouds one behind the other, with a batch vector."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(3, 8), nn.Linear(8, 6), nn.Linear(6, 5)

    def forward(self, pos, batch):
        x = torch.relu(self.second(torch.relu(self.first(pos))))
        return self.head(torch.stack([x[batch == i].amax(0) for i in range(int(batch.max()) + 1)]))


def test_clouds_in_a_list_are_encoded_one_by_one():
    torch.manual_seed(0)
    pos, batch = CLOUDS.flatten(0, 1), torch.arange(3).repeat_interleave(64)
    net = reqnn.revise(OfLists(), (pos.float(), batch), rules="full", to_real="second").double().eval()
    moved = (SIZE * CLOUDS @ R.mT + SHIFT * torch.arange(1, 4)[:, None, None]).flatten(0, 1)
    with torch.no_grad():
        a, b, alone = net.encode(pos, batch), net.encode(moved, batch), net.encode(pos[64:128], batch[:64])
    assert a["center"].shape == (3, 3)
    assert a["vectors"].shape == (3, 8, 3)
    torch.testing.assert_close(b["vectors"], a["vectors"] @ R.mT, rtol=0, atol=1e-9)
    torch.testing.assert_close(b["scale"], SIZE * a["scale"], rtol=1e-12, atol=0)
    torch.testing.assert_close(alone["vectors"], a["vectors"][1:2], rtol=0, atol=1e-12)
