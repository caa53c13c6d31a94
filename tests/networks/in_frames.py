"""Networks with submodules that need real coordinates, in places that make a difference for `coordinates="auto"`."""

import torch
from torch import nn


class Waves(nn.Module):
    """(B, N, 3) → (B, N, width): sines of coordinates."""

    def __init__(self, width=12):
        super().__init__()
        self.mix = nn.Linear(6, width)

    def forward(self, x):
        return self.mix(torch.cat([torch.sin(2 * x), torch.cos(2 * x)], -1))


class WithWaves(nn.Module):
    """(B, N, 3); a positional encoding, then real layers."""

    def __init__(self, classes=5):
        super().__init__()
        self.waves, self.norm, self.head = Waves(), nn.BatchNorm1d(12), nn.Linear(12, classes)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.waves(x).transpose(1, 2))).amax(2))


class Stage(nn.Module):
    """An inner block that needs the frame, and itself needs it as well."""

    def __init__(self):
        super().__init__()
        self.waves, self.mix = Waves(), nn.Linear(13, 12)

    def forward(self, x):
        return self.mix(torch.cat([self.waves(x), x[..., 2:]], -1))


class Nested(WithWaves):
    """(B, N, 3); the block lies in another one."""

    def __init__(self):
        super().__init__()
        self.waves = Stage()


class Offsets(nn.Module):
    """(B, N, 3) → moved points (B, N, 3); what is added comes from a block that needs the frame."""

    def __init__(self):
        super().__init__()
        self.waves = Waves(3)

    def forward(self, x):
        return x + self.waves(x)


class FarthestHalf(nn.Module):
    """(B, N, 3) → the points farthest from the origin, as they are, and features of them that need the frame."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(3, 8)

    def forward(self, x):
        index = x.norm(dim=-1).topk(x.shape[1] // 2)[1]
        points = x[torch.arange(len(x))[:, None], index]
        return points, self.mix(torch.sin(points))


class Sampled(nn.Module):
    """(B, N, 3); a block passes points on, and layers behind it use them."""

    def __init__(self, classes=5):
        super().__init__()
        self.sample, self.vectors, self.head = FarthestHalf(), nn.Linear(3, 8), nn.Linear(16, classes)

    def forward(self, x):
        points, features = self.sample(x)
        lengths = self.vectors(points - points.mean(1, keepdim=True)).pow(2)
        return self.head(torch.cat([lengths.amax(1), features.amax(1)], -1))
