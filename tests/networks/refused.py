"""Networks that cannot be revised as they stand. The line at fault is marked in each."""

import torch
import torch.nn.functional as F
from torch import nn


class Base(nn.Module):
    """(B, N, 3); a layer, something forbidden, a pool and a head."""

    width = 3

    def __init__(self, classes=5):
        super().__init__()
        self.local, self.head = nn.Linear(self.width, 8), nn.Linear(8, classes)
        self.setup()

    def setup(self):
        """Add more layers."""

    def pooled(self, x):
        return self.head(torch.relu(x).amax(1))


class AddsANumber(Base):
    def forward(self, x):
        x = self.local(x)
        return self.pooled(x + 1.0)  # refused


class AddsToCoordinates(Base):
    def forward(self, x):
        x -= 0.5  # refused
        return self.pooled(self.local(x))


class JoinsDistances(Base):
    width = 4

    def forward(self, x):
        distance = x.norm(dim=-1, keepdim=True)
        return self.pooled(self.local(torch.cat([x, distance], dim=-1)))  # refused


class SoftmaxOfFeatures(Base):
    def forward(self, x):
        x = self.local(x)
        return self.pooled(F.softmax(x, dim=-1))  # refused


class Height(Base):
    width = 4

    def forward(self, x):
        height = x[..., 1:2] - x[..., 1:2].amin(1, keepdim=True)  # refused
        return self.pooled(self.local(torch.cat([x, height], -1)))


class OneCoordinate(Base):
    def forward(self, x):
        up = x[:, :, 2]  # refused
        return self.pooled(self.local(x) * up.unsqueeze(-1))


class SineEncoding(Base):
    width = 6

    def forward(self, x):
        waves = [torch.sin(4 * x), torch.cos(4 * x)]  # refused
        return self.pooled(self.local(torch.cat(waves, dim=-1)))


class Covariance(Base):
    def setup(self):
        self.spread = nn.Linear(9, 8)

    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        matrix = centred.transpose(1, 2) @ centred  # refused
        return self.head(self.local(x).amax(1) + self.spread(matrix.flatten(1)))


class ClassToken(Base):
    def setup(self):
        self.token = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, x):
        x = self.local(x)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)  # refused
        return self.head(x[:, 0])


class Tanh(Base):
    def forward(self, x):
        return self.pooled(torch.tanh(self.local(x)))  # refused


class TanhInside(Base):
    """The operation lies in a submodule of torch's."""

    def setup(self):
        self.block = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

    def forward(self, x):
        return self.pooled(self.block(self.local(x)))  # refused


class Gate(nn.Module):
    """A submodule of the network's own."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x * torch.sigmoid(self.linear(x))  # refused in a submodule


class GatedFeatures(Base):
    def setup(self):
        self.stages = nn.ModuleList([Gate()])

    def forward(self, x):
        return self.pooled(self.stages[0](self.local(x)))


class Compares(Base):
    def forward(self, x):
        x = self.local(x)
        return self.pooled(x * (x > 0))  # refused


class PositionTable(Base):
    def setup(self):
        self.register_buffer("table", torch.randn(24, 8))

    def forward(self, x):
        x = self.local(x) + self.table[: x.shape[1]]  # refused
        return self.pooled(x)


class SingularValues(Base):
    def forward(self, x):
        _, _, axes = torch.linalg.svd(x - x.mean(1, keepdim=True), full_matrices=False)  # refused
        return self.pooled(self.local(x @ axes.transpose(1, 2)))


class WritesIntoZeros(Base):
    def forward(self, x):
        x = self.local(x)
        out = torch.zeros(*x.shape)
        out[:, ::2] = x[:, ::2]  # refused
        return self.pooled(out)


class SumsCoordinates(Base):
    def forward(self, x):
        total = x.sum(-1, keepdim=True)  # refused
        return self.pooled(self.local(x) * total)


class CutsVectors(Base):
    width = 6

    def forward(self, x):
        first, second = x[..., :2], x[..., 2:]  # refused
        return self.pooled(self.local(torch.cat([second, first], -1)))


class ToNumpy(Base):
    def forward(self, x):
        x = self.local(x)
        scale = x.detach().numpy().std()  # refused
        return self.pooled(x / float(scale))


class StaleAlias(Base):
    def forward(self, x):
        x = self.local(x)
        flat = x.view(-1, 8)
        x.relu_()
        return self.pooled(x + flat.view(x.shape))  # refused


def scale(x):
    """Return the height, as a weight."""
    return x[..., 1:2]  # refused


class Scaled(Base):
    def forward(self, x):
        return self.pooled(self.local(x) * scale(x))
