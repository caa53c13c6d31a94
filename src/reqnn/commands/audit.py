"""`reqnn audit`: is this network rotation-equivariant and permutation-invariant, layer by layer?"""

from __future__ import annotations

from dataclasses import dataclass

from reqnn.commands.base import NOT_OK, OK, busy, console, write_json
from reqnn.commands.network import NetworkCommand
from reqnn.errors import InputError


@dataclass(kw_only=True)
class Audit(NetworkCommand):
    """Measure rotation equivariance and permutation invariance of a network, layer by layer.

    Any network can be audited as it is; with --equivariant it is revised first.
    The exit code is 0 if it passes, 1 if it does not, 2 for bad input.

    Examples:
        reqnn audit my_models:PointNet --points 2,3,128
        reqnn audit my_models.py:DGCNN --kwargs '{"k": 10}' --equivariant --to-real conv6
        reqnn audit --model dgcnn --equivariant --options '{"width": 0.25}' --rotations 8 --json audit.json
    """

    equivariant: bool = False
    """Revise the network first."""

    def run(self) -> int:
        """Build, revise if asked, audit, print."""
        if not self.equivariant and (self.to_real or self.coordinates or self.remove or self.rules != "paper"):
            raise InputError("--to-real, --coordinates, --remove and --rules say how to revise: add --equivariant")
        model, points = self.original(self.equivariant)
        with busy("auditing"):
            net = self.revised(model, points) if self.equivariant else model
            report = self.audited(net, points)
        if self.json is not None:
            from reqnn.provenance import provenance

            settings = {**self.describe(points), "equivariant": self.equivariant}
            write_json({**settings, **report.to_dict(), "provenance": provenance()}, self.json)
        if self.json != "-":
            console().print(str(report), highlight=False, markup=False, soft_wrap=True)
        return OK if report.ok else NOT_OK
