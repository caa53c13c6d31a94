"""Classifiers in different writing styles: functional calls, Sequential only, modules that share activations, and so on."""

from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn


class Functional(nn.Module):
    """(B, 3, N); layers as modules, everything else as a call of torch.nn.functional."""

    def __init__(self, classes=5):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 12, 1), nn.Conv1d(12, 16, 1)
        self.bn1, self.bn2 = nn.BatchNorm1d(12), nn.BatchNorm1d(16)
        self.fc1, self.fc2 = nn.Linear(16, 12), nn.Linear(12, classes)
        self.bn3 = nn.BatchNorm1d(12)

    def forward(self, x):
        assert x.dim() == 3
        assert x.shape[1] == 3
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.leaky_relu(self.bn2(self.conv2(x)), negative_slope=0.2)
        x = F.max_pool1d(x, x.size(-1)).squeeze(-1)
        x = F.dropout(x, 0.3, training=self.training)
        x = F.relu(self.bn3(self.fc1(x)), inplace=True)
        return self.fc2(x)


class FunctionsOnly(nn.Module):
    """(B, N, 3); weights are bare parameters, and every layer is a function: linear, batch_norm, layer_norm."""

    def __init__(self, classes=5):
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.randn(12, 3)), nn.Parameter(torch.randn(12))
        self.w2, self.b2 = nn.Parameter(torch.randn(16, 12) / 4), nn.Parameter(torch.randn(16))
        self.w3, self.b3 = nn.Parameter(torch.randn(classes, 16) / 4), nn.Parameter(torch.randn(classes))

    def forward(self, x):
        x = torch.relu(F.linear(x, self.w1, self.b1))
        x = F.layer_norm(x, x.shape[-1:])
        x = torch.nn.functional.elu(F.linear(x, self.w2, bias=self.b2))
        x = torch.mean(x, dim=1)
        return F.linear(x, self.w3, self.b3)


def sequential(classes=5):
    """(B, 3, N); no class at all."""
    return nn.Sequential(
        nn.Conv1d(3, 12, 1),
        nn.BatchNorm1d(12),
        nn.ReLU(inplace=True),
        nn.Sequential(nn.Conv1d(12, 16, 1, bias=False), nn.BatchNorm1d(16), nn.GELU()),
        nn.Dropout(0.2),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(16, 12),
        nn.BatchNorm1d(12),
        nn.PReLU(),
        nn.Dropout(0.2),
        nn.Linear(12, classes),
    )


class Dense(nn.Module):
    """(B, 3, N); each layer sees all before it, in a ModuleList loop, with one shared activation module."""

    def __init__(self, classes=5, growth=6, depth=3):
        super().__init__()
        self.layers = nn.ModuleList()
        self.norms = nn.ModuleList()
        for i in range(depth):
            self.layers.append(nn.Conv1d(3 + i * growth, growth, kernel_size=1))
            self.norms.append(nn.BatchNorm1d(growth))
        self.act = nn.LeakyReLU(0.1)
        self.drop = nn.Dropout(p=0.5)
        self.head = nn.Linear(2 * (3 + depth * growth) - 6, classes)

    def forward(self, x):
        features = [x]
        for layer, norm in zip(self.layers, self.norms, strict=True):
            features.append(self.act(norm(layer(torch.cat(features, dim=1)))))
        out = torch.cat(features[1:], 1)
        pooled = torch.cat([out.max(dim=2)[0], out.mean(2)], dim=-1)
        return self.head(self.drop(pooled))


class Residual(nn.Module):
    """(B, N, 3), moved to (B, C, N) inside; in-place sums and activations."""

    class Block(nn.Module):
        """An inner class; the shortcut is added in place."""

        def __init__(self, width):
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv1d(width, width, 1), nn.BatchNorm1d(width), nn.ReLU(inplace=True), nn.Conv1d(width, width, 1)
            )
            self.norm = nn.BatchNorm1d(width)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            identity = x
            out = self.norm(self.net(x))
            out += identity
            return self.relu(out)

    def __init__(self, classes=5, width=12, blocks=2):
        super().__init__()
        self.stem = nn.Conv1d(3, width, 1)
        self.blocks = nn.Sequential(*[self.Block(width) for _ in range(blocks)])
        self.fc = nn.Linear(width, classes)

    def forward(self, pts):
        x = self.stem(pts.permute(0, 2, 1).contiguous())
        x = self.blocks(x)
        x *= 0.5
        x = x.relu_()
        return self.fc(x.amax(-1))


class SqueezeExcitation(nn.Module):
    """(B, 3, N); channel gates from pooled features, through Linear layers."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.conv1 = nn.Conv1d(3, width, 1)
        self.conv2 = nn.Conv1d(width, width, 1)
        self.gate = nn.Sequential(nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, width), nn.Sigmoid())
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.conv2(torch.relu(self.conv1(x)))
        batch, channels, _ = x.size()
        x = x * self.gate(x.mean(dim=-1)).view(batch, channels, 1)
        return self.head(torch.relu(x).max(-1).values)


class ConvolutionGate(nn.Module):
    """(B, 3, N); gates through 1×1 convolutions, so that the real part has to be named."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.conv1 = nn.Conv1d(3, width, 1)
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.squeeze, self.excite = nn.Conv1d(width, 4, 1), nn.Conv1d(4, width, 1)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.conv1(x)
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(self.pool(x)))))
        x = x * gate.expand_as(x)
        return self.head(x.max(2)[0])


class Containers(nn.Module):
    """(B, N, 3); ModuleDict, functions and a partial held as attributes, `*` unpacking, a property, a static method."""

    def __init__(self, classes=5):
        super().__init__()
        widths = [3, 8, 16]
        self.layers = nn.ModuleDict({f"l{i}": nn.Linear(a, b) for i, (a, b) in enumerate(pairwise(widths))})
        self.act = F.relu
        self.pool = partial(torch.amax, dim=1)
        self.reduce = torch.mean
        self.final = nn.Linear(32, classes)

    @property
    def stages(self):
        return list(self.layers.values())

    @staticmethod
    def joined(*parts):
        return torch.hstack(parts)

    def forward(self, x):
        for layer in self.stages:
            x = self.act(layer(x))
        return self.final(self.joined(self.pool(x), self.reduce(x, 1)))


class Einsum(nn.Module):
    """(B, N, 3); mixing by einsum with bare weights, pairwise products by einsum."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(3, width))
        self.w2 = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        x = x - x.mean(1, keepdim=True)
        h = torch.einsum("bnc,cd->bnd", x, self.w1).relu()
        near = torch.einsum("bnd,bmd->bnm", h, h).softmax(-1)
        h = h + torch.einsum("bnm,bmd,de->bne", near, h, self.w2)
        return self.out(torch.einsum("bnd->bd", h) / x.shape[1])


class RawParameters(nn.Module):
    """(B, 3, N); `@` with parameters, gains and shifts, also through views of them, and a buffer."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, width))
        self.b = nn.Parameter(torch.randn(width))
        self.gain_in = nn.Parameter(torch.rand(3) + 0.5)
        self.gain = nn.Parameter(torch.rand(width) + 0.5)
        self.shift = nn.Parameter(torch.randn(width))
        self.left = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.register_buffer("scale", torch.tensor(0.5))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.gain_in[None, :, None] * x
        x = (x.transpose(1, 2) @ self.w + self.b).transpose(1, 2)
        x = F.relu(x * self.gain.view(1, -1, 1) + self.shift[None, :, None])
        x = torch.matmul(self.left, x) * self.scale
        return self.head(x.max(-1)[0])


class Lazy(nn.Module):
    """(B, 3, N); widths are found in the first call."""

    def __init__(self, classes=5):
        super().__init__()
        self.conv1, self.conv2 = nn.LazyConv1d(12, 1), nn.LazyConv1d(16, 1)
        self.norm = nn.LazyBatchNorm1d()
        self.fc = nn.LazyLinear(classes)

    def forward(self, x):
        x = self.conv2(torch.relu(self.conv1(x)))
        return self.fc(torch.relu(self.norm(x)).max(2)[0])


class FlatBatches(nn.Module):
    """(B, N, 3); points of all clouds in one list, (B·N, C), as Linear and BatchNorm1d take them."""

    def __init__(self, classes=5):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(3, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 16), nn.BatchNorm1d(16))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        batch, count, channels = x.shape
        x = self.mlp(x.reshape(-1, channels)).view(batch, count, -1)
        return self.head(x.max(dim=1)[0])


class GroupNorms(nn.Module):
    """(B, 3, N); group, instance and layer normalisation; SiLU and Mish; an element-wise maximum of two branches."""

    def __init__(self, classes=5):
        super().__init__()
        self.a, self.b = nn.Conv1d(3, 12, 1), nn.Conv1d(3, 12, 1)
        self.group, self.instance = nn.GroupNorm(3, 12), nn.InstanceNorm1d(12)
        self.layer = nn.LayerNorm(12)
        self.silu, self.mish = nn.SiLU(), nn.Mish()
        self.head = nn.Linear(12, classes)

    def forward(self, x):
        x = torch.maximum(self.silu(self.group(self.a(x))), self.instance(self.mish(self.b(x))))
        x = self.layer(x.transpose(-1, -2))
        return self.head(x.mean(dim=-2))


class ParameterViews(nn.Module):
    """(B, 3, N); a gain of the coordinates, viewed with their number written out."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(3) + 0.5)
        self.conv, self.head = nn.Conv1d(3, width, 1), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.conv(x * self.gain.view(1, -1, 1)).relu().max(-1)[0])


class Tied(nn.Module):
    """(B, N, 3); two layers on coordinates share one weight."""

    def __init__(self, classes=5, width=12):
        super().__init__()
        self.a, self.b = nn.Linear(3, width), nn.Linear(3, width)
        self.b.weight = self.a.weight
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = torch.relu(self.a(x)) + 0.5 * self.b(x - x.mean(dim=1, keepdim=True))
        return self.head(x.amax(1))
