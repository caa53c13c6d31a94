"""A network whose sampling function tells who called it, and waits where the test says so."""

import threading

import torch
from torch import nn

SEEN: list[str] = []
PAUSE = threading.Barrier(2, timeout=20)
PAUSE_ON: list[bool] = []


def farthest_point_sample(xyz, npoint):
    """Return the first points in storage."""
    SEEN.append(f"original:{type(xyz).__name__}")
    if PAUSE_ON:
        PAUSE.wait()
        PAUSE.wait()
    return torch.arange(npoint).repeat(len(xyz), 1)


def pick(xyz, count):
    """Call the function above through another one."""
    index = farthest_point_sample(xyz, count)
    return torch.gather(xyz, 1, index.unsqueeze(-1).expand(-1, -1, 3))


class Bystander(nn.Module):
    """(B, N, 3)."""

    def __init__(self):
        super().__init__()
        self.local, self.head = nn.Linear(3, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.local(pick(x, 5))).amax(1))


class Child(Bystander):
    """A subclass that calls its parent by `super()`, with an inner class and a class attribute."""

    class Options:
        """Read by the network."""

        factor = 2.0

    calls = 0

    def forward(self, x):
        type(self).calls += 1
        return super().forward(x) * self.Options.factor

    @classmethod
    def named(cls, name):
        made = cls()
        made.name = name
        return made
