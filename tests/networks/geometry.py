"""Networks with hand-written functions of coordinates: single numbers depend on the orientation, results do not."""

import torch
import torch.nn.functional as F
from torch import nn

from experiments.networks.grouping import gather, knn


def angle(a, b):
    """Return the angle between vectors, by a cross product written out."""
    cross = torch.stack(
        [
            a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1],
            a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2],
            a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0],
        ],
        dim=-1,
    )
    return torch.atan2(cross.norm(dim=-1), (a * b).sum(-1))


def normals_of_triangles(corners):
    """Return unit normals (…, 3) of triangles (…, 3 corners, 3), component by component, and their areas."""
    u, v = corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :]
    x = u[..., 1] * v[..., 2] - u[..., 2] * v[..., 1]
    y = u[..., 2] * v[..., 0] - u[..., 0] * v[..., 2]
    z = u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
    length = (x * x + y * y + z * z).sqrt() + 1e-9
    return torch.stack([x, y, z], -1) / length.unsqueeze(-1), length / 2


class PointPairs(nn.Module):
    """(B, N, 3) and normals: angles of pairs and their difference, a maximum over neighbours."""

    def __init__(self, classes=5, k=6):
        super().__init__()
        self.k = k
        self.local = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 16))
        self.head = nn.Linear(16, classes)

    def forward(self, xyz, normals):
        index = knn(xyz, self.k)
        step, other = gather(xyz, index) - xyz.unsqueeze(2), gather(normals, index)
        own = normals.unsqueeze(2)
        angles = [angle(own, step), angle(other, step), angle(own, other), step.norm(dim=-1)]
        features = torch.cat([step, torch.stack(angles, dim=-1)], dim=-1)
        return self.head(self.local(features).amax(2).amax(1))


class Triangles(nn.Module):
    """(B, N, 3); the normal and the area of the triangle with the two nearest neighbours beside the point."""

    def __init__(self, classes=5):
        super().__init__()
        self.local, self.head = nn.Sequential(nn.Linear(6, 16), nn.ReLU()), nn.Linear(16, classes)

    def forward(self, xyz):
        normals, areas = normals_of_triangles(gather(xyz, knn(xyz, 3)))
        return self.head(self.local(torch.cat([xyz, normals], -1)).mul(areas.unsqueeze(-1)).mean(1))


def lean(x):
    """Return a number that depends on the orientation."""
    return torch.atan2(x[..., 1], x[..., 0])


def largest(x):
    """Return a number that is the same if x, y and z change places, and not if they rotate."""
    return torch.maximum(torch.maximum(x[..., 0].abs(), x[..., 1].abs()), x[..., 2].abs())


class Reads(nn.Module):
    """(B, N, 3); weights the features by what a function reads off the coordinates."""

    def __init__(self, function, classes=5):
        super().__init__()
        self.function = function
        self.local, self.head = nn.Linear(3, 8), nn.Linear(8, classes)

    def forward(self, xyz):
        read = lean(xyz) if self.function == "lean" else largest(xyz)
        return self.head((F.relu(self.local(xyz)) * read.unsqueeze(-1)).mean(1))


def turned(points, pose):
    """Rotate points (B, N, 3) by unit quaternions and shift them. pose: (B, 7)"""
    real, axis, shift = pose[:, None, :1], pose[:, None, 1:4].expand_as(points), pose[:, None, 4:]
    once = torch.cross(axis, points, dim=-1)
    return points + 2 * (real * once + torch.cross(axis, once, dim=-1)) + shift


class PoseSteps(nn.Module):
    """Two clouds; a pose from pooled features moves the source, twice; the moved source and the last pose."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 16, 1))
        self.pose = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 7))

    def forward(self, template, source):
        first = self.features(template.transpose(1, 2)).max(2)[0]
        for _ in range(2):
            second = self.features(source.transpose(1, 2)).max(2)[0]
            pose = self.pose(torch.cat([first, second], 1))
            pose = torch.cat([F.normalize(pose[:, :4], dim=1), pose[:, 4:]], 1)
            source = turned(source, pose)
        return source, pose


def fit(a, b):
    """Return the rotation and shift that take points a to b, as one matrix (B, 4, 4)."""
    left, right = a.mean(1, keepdim=True), b.mean(1, keepdim=True)
    u, _, v = torch.linalg.svd((a - left).mT @ (b - right))
    flip = torch.ones(len(u), 3).to(u)
    flip[:, 2] = torch.det(v.mT @ u.mT)
    rotation = v.mT @ torch.diag_embed(flip) @ u.mT
    shift = right.mT - rotation @ left.mT
    bottom = torch.tensor([[[0.0, 0, 0, 1]]]).to(u).repeat(len(u), 1, 1)
    return torch.cat([torch.cat([rotation, shift], 2), bottom], 1)


class Mixtures(nn.Module):
    """Two clouds; soft clusters of each, and the motion that takes the means of one to those of the other."""

    def __init__(self, clusters=6):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, clusters))

    def means(self, xyz):
        weights = torch.softmax(self.local(xyz * xyz.norm(dim=-1, keepdim=True)), dim=2)
        return weights.mT @ xyz / weights.sum(1).unsqueeze(2)

    def forward(self, source, target):
        return fit(self.means(source), self.means(target))


class Motion(nn.Module):
    """Weighted rotation and shift between two clouds of as many points."""

    def forward(self, source, target, weights):
        motion = fit(source * weights.unsqueeze(-1), target * weights.unsqueeze(-1))
        return motion[:, :3, :3], motion[:, :3, 3]


class Alignment(nn.Module):
    """Two clouds; in each step weights from features, and a motion that the model's own forward applies."""

    def __init__(self):
        super().__init__()
        self.local, self.weigh, self.motion = nn.Linear(3, 8), nn.Linear(8, 1), Motion()

    def forward(self, source, target):
        rotation, shift = torch.eye(3).to(source), torch.zeros(3).to(source)
        for _ in range(2):
            weights = torch.sigmoid(self.weigh(F.relu(self.local(source - target)))).squeeze(-1)
            step, by = self.motion(source, target, weights)
            source = torch.matmul(source, step.mT) + by.unsqueeze(1)
            rotation, shift = step @ rotation, by
        return rotation, shift


class SelectedTokens(nn.Module):
    """(B, N, 3); the points of the highest scores: features, score and coordinates side by side, as wide as tokens."""

    def __init__(self, classes=5, width=16, top=8):
        super().__init__()
        self.top = top
        self.local = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.score, self.narrow = nn.Linear(width, 1), nn.Linear(width, width - 4)
        self.mix, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.head = nn.Linear(width * top, classes)

    def forward(self, xyz):
        features = self.local(xyz)
        score = self.score(features)
        best = torch.topk(score[..., 0], self.top, 1)[1].unsqueeze(-1)
        chosen = torch.gather(features, 1, best.expand(-1, -1, features.shape[-1]))
        tokens = (self.narrow(chosen), torch.gather(score, 1, best), torch.gather(xyz, 1, best.expand(-1, -1, 3)))
        tokens = torch.cat(tokens, -1)
        mixed = self.mix(tokens)
        mixed += tokens
        return self.head(self.norm(mixed).flatten(1))


def query_ball_point(radius, nsample, xyz, new_xyz, own=None):
    """Return the first points in a ball, the centre only where there are too few others."""
    count = xyz.shape[1]
    index = torch.arange(count).expand(len(xyz), new_xyz.shape[1], count).clone()
    if own is not None:
        index.scatter_(2, own.unsqueeze(-1), count)
    index[((new_xyz.unsqueeze(2) - xyz.unsqueeze(1)) ** 2).sum(-1) > radius**2] = count
    index = index.sort(dim=-1)[0][:, :, :nsample]
    first = index[:, :, :1] if own is None else own.unsqueeze(-1)
    return torch.where(index == count, first.expand_as(index), index)


class WithoutCentre(nn.Module):
    """(B, N, 3); balls around all points that leave out the centre, and repeat it where they hold too few."""

    def __init__(self, classes=5, radius=0.7, k=4):
        super().__init__()
        self.radius, self.k = radius, k
        self.local, self.head = nn.Sequential(nn.Linear(3, 16), nn.ReLU()), nn.Linear(16, classes)

    def forward(self, xyz):
        own = torch.arange(xyz.shape[1]).expand(len(xyz), -1)
        near = gather(xyz, query_ball_point(self.radius, self.k, xyz, xyz, own))
        return self.head(self.local(near - xyz.unsqueeze(2)).mean(2).amax(1))


class LoadedNeighbours(nn.Module):
    """(B, N, 3), neighbours (B, N, k) and places of a coarser cloud (B, M), which a data loader has found; per-point output."""

    def __init__(self, classes=5):
        super().__init__()
        self.first, self.second = nn.Sequential(nn.Linear(3, 16), nn.ReLU()), nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(32, classes)

    def forward(self, xyz, neighbours, coarse):
        rows = torch.arange(len(xyz)).view(-1, 1, 1)
        local = self.first(xyz[rows, neighbours] - xyz.unsqueeze(2)).amax(2)
        kept = torch.gather(local, 1, coarse.unsqueeze(-1).expand(-1, -1, local.shape[-1]))
        whole = self.second(kept).mean(1, keepdim=True).expand(-1, xyz.shape[1], -1)
        return self.head(torch.cat([local, whole], -1).flatten(0, 1)).unflatten(0, xyz.shape[:2])


class Patches(nn.Module):
    """(B, 3, N); patches that decoders fold from a code, joined with the given cloud, and an offset for each point."""

    def __init__(self, patches=2, width=12):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU())
        self.code = nn.Linear(width, width)
        self.decoders = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width + 2, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 3, 1))
            for _ in range(patches)
        )
        self.refine = nn.Sequential(nn.Conv1d(4, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 3, 1))
        self.register_buffer("grid", torch.rand(1, 2, 9, generator=torch.Generator().manual_seed(0)))

    def forward(self, x):
        code = self.code(self.encoder(x).amax(2)).unsqueeze(2).expand(-1, -1, 9)
        grid = self.grid.expand(len(x), -1, -1)
        coarse = torch.cat([decoder(torch.cat([grid, code], 1)) for decoder in self.decoders], 2)
        flags = [torch.full((len(y), 1, y.shape[2]), float(i), dtype=x.dtype) for i, y in enumerate((coarse, x))]
        made, given = torch.cat([coarse, flags[0]], 1), torch.cat([x, flags[1]], 1)
        joined = torch.cat([made, given], 2)
        return coarse, joined[:, :3] + self.refine(joined)
