"""Outputs that are matrices: rotations between two clouds, covariances; A becomes R·A·Rᵀ."""

import pytest
import torch
from torch import nn

import reqnn
from networks.checks import ROTATIONS, error
from reqnn.errors import InputError, NoRuleError

R = ROTATIONS[0]
WORDS = ("matrices", "vectors", "matrices", "vectors")
A, B = torch.randn(2, 3, 30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


class Procrustes(nn.Module):
    """The rotation and translation that take one cloud to soft correspondences in the other, by singular vectors."""

    def forward(self, a, b, source, target):
        match = torch.softmax(a @ b.mT, -1) @ target
        left, right = source - source.mean(1, keepdim=True), match - match.mean(1, keepdim=True)
        u, _, v = torch.linalg.svd(left.mT @ right)
        flip = torch.ones(len(u), 3).to(u)
        flip[:, 2] = torch.det(u @ v)
        rotation = v.mT @ torch.diag_embed(flip) @ u.mT
        return rotation, match.mean(1) - (rotation @ source.mean(1).unsqueeze(2)).squeeze(2)


class Registration(nn.Module):
    """Deep closest points: the motion and its inverse, computed behind the head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16))
        self.head = Procrustes()

    def forward(self, source, target):
        near = torch.cdist(source, source).topk(4, largest=False)[1], torch.cdist(target, target).topk(4, largest=False)[1]
        rows = torch.arange(len(source))[:, None, None]
        features = [self.embed(x[rows, index] - x[:, :, None]).amax(2) for x, index in zip((source, target), near, strict=True)]
        rotation, shift = self.head(*features, source, target)
        back = rotation.transpose(2, 1).contiguous()
        return rotation, shift, back, -torch.matmul(back, shift.unsqueeze(2)).squeeze(2)


class Pose(nn.Module):
    """A pose from pooled features of both clouds, as one homogeneous matrix."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 16))
        self.head = nn.Linear(32, 12)

    def forward(self, source, target):
        pooled = [self.embed(x * x.norm(dim=-1, keepdim=True)).amax(1) for x in (source, target)]
        top = self.head(torch.cat(pooled, 1)).view(-1, 3, 4)
        bottom = torch.tensor([[[0.0, 0, 0, 1]]]).repeat(len(top), 1, 1)
        return torch.cat([top, bottom], 1)


def moved(outputs):
    """What outputs of the rotated clouds should be."""
    homogeneous = torch.block_diag(R, torch.ones(1, 1, dtype=R.dtype))
    for x in outputs:
        yield x @ R.T if x.dim() == 2 else R @ x @ R.T if x.shape[-1] == 3 else homogeneous @ x @ homogeneous.T


def check(net):
    net = net.double().eval()
    before, after = (out if isinstance(out, tuple) else (out,) for out in (net(A, B), net(A @ R.T, B @ R.T)))
    for x, expected, y in zip(before, moved(before), after, strict=True):
        assert error(expected, y) < 1e-9
        assert error(x, y) > 1e-2  # it does rotate
        assert error(x, x.flip(0)) > 1e-2  # and depends on the cloud


@pytest.mark.parametrize("rules", ["paper", "full", "vector-neurons", "frames"])
def test_a_registration_network_is_equivariant(rules):
    torch.manual_seed(0)
    options = {} if rules == "frames" else {"coordinates": ("head",)}
    net = reqnn.revise(Registration(), (A.float(), B.float()), rules=rules, outputs=WORDS, **options)
    check(net)
    if rules != "frames":
        assert any("rotated back, an extension" in note for note in net.report.notes)


def test_the_error_names_the_outputs():
    with pytest.raises(NoRuleError, match=r"in layer 'head'[\s\S]*outputs=\('matrices', 'vectors', 'matrices', 'vectors'\)"):
        reqnn.revise(Registration(), (A.float(), B.float()))
    with pytest.raises(NoRuleError, match=r"a real matrix[\s\S]*outputs=\('matrices', 'vectors', 'matrices', 'vectors'\)"):
        reqnn.revise(Registration(), (A.float(), B.float()), coordinates=("head",))


@pytest.mark.parametrize("rules", ["paper", "full", "frames"])
def test_homogeneous_matrices(rules):
    torch.manual_seed(0)
    points = (A.float(), B.float())
    check(reqnn.revise(Pose(), points, rules=rules, outputs=("matrices",)))
    with pytest.raises(InputError, match="'real' or 'vectors' for each, or 'matrices'"):
        reqnn.revise(Pose(), points, rules=rules, outputs=("matrix",))


def test_what_is_no_matrix_and_what_strict_refuses():
    points = (A.float(), B.float())
    with pytest.raises(InputError, match=r"outputs: 'matrices' are \(B, …, 3, 3\)"):
        reqnn.revise(Registration(), points, outputs=("matrices",) * 4)
    with pytest.raises(InputError, match="strict=True"):
        reqnn.revise(Pose(), points, outputs=("matrices",), strict=True)


class Frames32(nn.Module):
    """Neighbourhoods of all clouds in one axis, and tensors that are float32 in any network."""

    def __init__(self):
        super().__init__()
        self.embed, self.decode = nn.Linear(3, 8), nn.Linear(8, 3)

    def forward(self, xyz):
        mask = torch.zeros(xyz.shape[:2])
        mask[:, ::2] = xyz.norm(dim=-1)[:, ::2]
        pooled = (self.embed(xyz * torch.FloatTensor([1.0, 2.0, 3.0])) * mask.unsqueeze(2)).relu().view(len(xyz) * 5, 6, 8)
        return self.decode(pooled).float(), xyz.view(len(xyz), 5, 6, 3)


def test_frames_of_float32_code_in_float64_and_of_rows_that_are_parts_of_clouds():
    torch.manual_seed(0)
    net = reqnn.revise(Frames32(), A.float(), rules="frames").double().eval()
    for x, y in zip(net(A), net(A @ R.T), strict=True):
        assert y.dtype == torch.float64
        assert error(x @ R.T, y) < 1e-10
        assert error(x, y) > 1e-2
    with pytest.raises(InputError, match=r"points have dtype torch\.float32"):
        net(A.float())
