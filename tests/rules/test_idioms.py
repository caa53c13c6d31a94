"""Idioms of public code, each in a small network: it works and is invariant, or the error says what has no rule, and where."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import reqnn
from networks.checks import ORDER, ROTATIONS, calibrate, error, spread

torch.manual_seed(0)
POINTS = torch.randn(4, 24, 3, dtype=torch.float64) * torch.tensor([1.0, 0.6, 0.4], dtype=torch.float64)


def nearest(x, k):
    return torch.cdist(x, x).topk(k, largest=False)[1]


def pick(x, index):
    return x[torch.arange(len(x)).view(-1, 1, 1), index]


class Small(nn.Module):
    """(B, N, 3); features of points go through an idiom, the result to the head."""

    def __init__(self, idiom, **parts):
        super().__init__()
        self.idiom = idiom
        self.first, self.norm, self.second, self.head = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 8), nn.Linear(8, 5)
        for name, part in parts.items():
            setattr(self, name, part())

    def features(self, x):
        return F.relu(self.norm(self.first(x).mT).mT)

    def forward(self, xyz):
        x = self.idiom(self, xyz, self.features(xyz))
        return self.head(x.max(1)[0] if x.dim() == 3 else x)


def interpolated(net, xyz, x):
    distance, index = ((xyz[:, :, None] - xyz[:, None]) ** 2).sum(-1).sort(dim=-1)
    weight = 1 / (distance[:, :, 1:4] + 1e-8)
    weight = weight / weight.sum(2, keepdim=True)
    return net.double_width(torch.cat([x, (pick(x, index[:, :, 1:4]) * weight.unsqueeze(-1)).sum(2)], -1))


def softmax_by_hand(net, xyz, x):
    scores = net.second(x)
    weights = torch.exp(scores - scores.max(1, keepdim=True)[0])
    return (weights / weights.sum(1, keepdim=True)) * x


def summed_in_place(net, xyz, x):
    total = torch.zeros_like(xyz.norm(dim=-1, keepdim=True)).repeat(1, 1, 8)
    for _ in range(2):
        total += net.second(x)
    return total


def written_row_by_row(net, xyz, x):
    out = x.new_zeros(len(x), 8)
    for b in range(len(x)):
        out[b] = x[b][xyz[b].norm(dim=-1) > 0.1].max(0)[0]
    return out


WORKS = {
    "einsum of pairs": lambda net, xyz, x: torch.einsum("bnc,bmc->bnm", x, net.second(x)).softmax(-1) @ x,
    "einsum of three": lambda net, xyz, x: torch.einsum("bnc,bnm,bmc->bnc", x, torch.cdist(xyz, xyz), net.second(x)),
    "weights by cdist": lambda net, xyz, x: torch.exp(-torch.cdist(xyz, xyz)) @ x,
    "F.pad": lambda net, xyz, x: net.second(F.pad(x[..., :6], (1, 1))),
    "where by norm": lambda net, xyz, x: torch.where(xyz.norm(dim=-1, keepdim=True) > 0.5, x, torch.zeros(1).to(x)),
    "where by features": lambda net, xyz, x: torch.where(x > 0, x, 0.1 * x),
    "masked_fill": lambda net, xyz, x: x.masked_fill((xyz.norm(dim=-1) > 1).unsqueeze(-1), -1e9),
    "topk of scores": lambda net, xyz, x: x.gather(1, net.score(x).topk(5, dim=1)[1].expand(-1, -1, 8)),
    "rows by a mask": written_row_by_row,
    "mT": lambda net, xyz, x: x.mT.contiguous().mT,
    "linalg.norm": lambda net, xyz, x: x + x / torch.linalg.norm(x, ord=2, dim=2, keepdim=True),
    "argsort of distances": lambda net, xyz, x: x.gather(1, xyz.norm(dim=-1).argsort(1)[..., None].expand(-1, -1, 8))[:, :12],
    "argsort of features": lambda net, xyz, x: x.gather(1, x.argsort(1))[:, 12:].mean(1),
    "cross": lambda net, xyz, x: x + net.first(torch.cross(xyz, xyz.mean(1, keepdim=True).expand_as(xyz) * 3, dim=-1)),
    "det": lambda net, xyz, x: x * torch.det(pick(xyz, nearest(xyz, 3))).abs().unsqueeze(-1),
    "singular values": lambda net, xyz, x: x.max(1)[0] * torch.linalg.svdvals(xyz)[:, :1],
    "F.interpolate": lambda net, xyz, x: F.interpolate(x.mT, scale_factor=2).mT,
    "three nearest": interpolated,
    "attention on coordinates": lambda net, xyz, x: net.wide(net.coordinates(xyz, xyz, xyz)[0]),
    "TransformerEncoderLayer": lambda net, xyz, x: net.encoder(x),
    "max_pool2d": lambda net, xyz, x: F.max_pool2d(pick(x, nearest(xyz, 4)).permute(0, 3, 1, 2), [1, 4]).squeeze(-1).mT,
    "adaptive pools": lambda net, xyz, x: (
        F.adaptive_max_pool1d(x.mT, 1).view(len(x), -1) + F.adaptive_avg_pool1d(x.mT, 1).view(len(x), -1)
    ),
    "softmax by hand": softmax_by_hand,
    "glu": lambda net, xyz, x: F.glu(net.double_out(x), -1),
    "clamp": lambda net, xyz, x: net.second(x).clamp(-1, 1),
    "sine": lambda net, xyz, x: torch.sin(net.second(x)),
    "bilinear": lambda net, xyz, x: net.pairs(x, x),
    "class token": lambda net, xyz, x: net.encoder(torch.cat([net.token.expand(len(x), -1, -1), x], 1))[:, 0],
    "sums in place": summed_in_place,
    "x @ W": lambda net, xyz, x: F.relu(xyz @ net.matrix),
    "addcdiv": lambda net, xyz, x: torch.addcdiv(x, x, xyz.norm(dim=-1, keepdim=True) + 1),
}
PARTS = {
    "score": lambda: nn.Linear(8, 1),
    "wide": lambda: nn.Linear(3, 8),
    "double_width": lambda: nn.Linear(16, 8),
    "double_out": lambda: nn.Linear(8, 16),
    "coordinates": lambda: nn.MultiheadAttention(3, 1, batch_first=True),
    "encoder": lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
    "pairs": lambda: nn.Bilinear(8, 8, 8),
    "token": lambda: nn.Parameter(torch.randn(1, 1, 8)),
    "matrix": lambda: nn.Parameter(torch.randn(3, 8)),
    "recurrent": lambda: nn.LSTM(8, 8, batch_first=True),
    "transform": lambda: nn.Linear(3, 9),
}


def build(idiom):
    torch.manual_seed(0)
    used = {name for name in PARTS if name in idiom.__code__.co_names}
    return Small(idiom, **{name: PARTS[name] for name in used})


@torch.no_grad()
@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize("name", WORKS)
def test_what_works(name, rules):
    options = {"products": 4} if rules == "full" else {"frame_width": 8} if rules == "vector-neurons" else {}
    chosen = reqnn.get_rules(rules).with_options(**options)
    net = reqnn.revise(build(WORKS[name]), POINTS.float(), rules=chosen, check=False).double()
    calibrate(net, (POINTS,))
    usual = net(POINTS)
    assert error(usual, net(POINTS[:, ORDER] @ ROTATIONS[0].T)) < 1e-9
    assert spread(usual) > 1e-6


@pytest.mark.parametrize("name", WORKS)
def test_the_original_is_not_invariant(name):
    model = calibrate(build(WORKS[name]).double(), (POINTS,))
    assert error(model(POINTS), model(POINTS @ ROTATIONS[0].T)) > 1e-4


REFUSED = {
    "covariance": (lambda net, xyz, x: x.max(1)[0] * torch.svd(xyz.mT @ xyz)[1][:, :1], "matmul", "covariance"),
    "covariance by einsum": (
        lambda net, xyz, x: torch.einsum("bnc,bnd->bcd", xyz, xyz).flatten(1)[:, :8],
        "einsum",
        "covariance",
    ),
    "coordinates and features": (lambda net, xyz, x: net.first(x[..., :3]), "linear", "coordinates and features"),
    "one coordinate": (lambda net, xyz, x: x * (xyz[..., 2:] > 0), "__getitem__", "cuts a vector apart"),
    "sine of coordinates": (lambda net, xyz, x: net.first(torch.sin(xyz)), "sin", "depend on the orientation"),
    "sorted coordinates": (lambda net, xyz, x: x * xyz[..., :1].sort(1)[0], "__getitem__", "cuts a vector apart"),
    "homogeneous coordinates": (lambda net, xyz, x: F.pad(xyz, (0, 5), value=1.0), "pad", "other than 0"),
    "recurrent": (lambda net, xyz, x: net.recurrent(x)[0], "lstm", "order of the points"),
    "a transform": (lambda net, xyz, x: net.first(xyz @ net.transform(xyz.max(1)[0]).view(-1, 3, 3)), "matmul", "coordinates"),
    "vmap": (lambda net, xyz, x: torch.vmap(lambda cloud: cloud - cloud.mean(0))(x), "", "torch.vmap"),
    "rounded": (lambda net, xyz, x: net.first(torch.round(xyz)), "round", "no rule"),
    "voxels": (lambda net, xyz, x: x * len(torch.unique((xyz * 4).long(), dim=1)), "long", "no rule"),
    "fixed scales": (
        lambda net, xyz, x: net.first(xyz * torch.tensor([1.0, 2.0, 3.0])),
        "mul",
        "differ between the coordinates",
    ),
    "divided by extent": (
        lambda net, xyz, x: net.first(xyz / (xyz.amax(1) - xyz.amin(1)).unsqueeze(1)),
        "div",
        "by their norm",
    ),
    "numpy": (lambda net, xyz, x: x * float(xyz.detach().numpy().max()), "numpy", "no rule"),
    "written into numbers": (
        lambda net, xyz, x: torch.ones(4, 24, 8).index_add_(1, ORDER, x),
        "index_add_",
        "not 0 everywhere",
    ),
}


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, rules):
    idiom, operation, why = REFUSED[name]
    with pytest.raises(reqnn.NoRuleError, match=why) as caught:
        reqnn.revise(build(idiom), POINTS.float(), rules=rules)
    assert operation in caught.value.operation
    assert "test_idioms.py" in caught.value.location
    assert "it fails on quaternion features" not in caught.value.reason
