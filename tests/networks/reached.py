"""Sampling functions that are reached in roundabout ways: decorated, as methods, through a registry."""

import torch
from torch import nn

from networks.decorators import timed
from networks.sampling import farthest_point_sample, index_points

SAMPLERS = {"farthest": farthest_point_sample}


def pooled(x):
    """Return the maximum over the points."""
    return torch.relu(x).amax(1)


@timed
def timed_pooled(x):
    """Return the same, and how long it took."""
    return pooled(x)


@torch.no_grad()
def furthest_point_sample(xyz, npoint):
    """Return the first points in storage: as wrong as can be."""
    return torch.arange(npoint).repeat(len(xyz), 1)


class Sampled(nn.Module):
    """(B, N, 3); a network on a few sampled points; subclasses say how they are sampled."""

    def __init__(self, classes=5):
        super().__init__()
        self.local, self.head = nn.Linear(3, 12), nn.Linear(12, classes)

    def sample(self, xyz):
        raise NotImplementedError

    def forward(self, xyz):
        return self.head(pooled(self.local(index_points(xyz, self.sample(xyz)))))


class Decorated(Sampled):
    """The sampling runs without gradients."""

    def sample(self, xyz):
        return furthest_point_sample(xyz, 7)


class Timed(Decorated):
    """The pooling is timed by a decorator from another Python module."""

    def forward(self, xyz):
        return self.head(timed_pooled(self.local(index_points(xyz, self.sample(xyz)))))


class StaticMethod(Sampled):
    """The sampling function is a static method."""

    @staticmethod
    def farthest_point_sample(xyz, npoint):
        return torch.arange(npoint).repeat(len(xyz), 1)

    def sample(self, xyz):
        return self.farthest_point_sample(xyz, 7)


class Registry(Sampled):
    """The sampling function is found by its name in a dict."""

    def sample(self, xyz):
        return SAMPLERS["farthest"](xyz, 7)
