"""`reqnn revise`: revise a network and show the rule of each operation."""

from __future__ import annotations

from dataclasses import dataclass

from reqnn.commands.base import NOT_OK, OK, busy, console, write_json
from reqnn.commands.network import NetworkCommand


@dataclass(kw_only=True)
class Revise(NetworkCommand):
    """Revise a network and show which rule each operation uses; in Python: `reqnn.revise(model, points)`.

    The exit code is 0 if every operation has a rule, 2 if one has none: the message names the line and what to do.
    With --audit it is 1 if the revised network does not pass.

    Examples:
        reqnn revise my_models:PointNet --points 2,3,128 --remove feat.stn
        reqnn revise my_models.py:DGCNN --kwargs '{"k": 10}' --audit
        reqnn revise --model pointconv --json revision.json
    """

    audit: bool = False
    """Also audit the revised network."""

    def run(self) -> int:
        """Build, revise, print; audit if asked."""
        model, points = self.original(equivariant=True)
        with busy("revising"):
            net = self.revised(model, points)
        audit = None
        if self.audit:
            with busy("auditing"):
                audit = self.audited(net, points)
        if self.json is not None:
            from reqnn.provenance import provenance

            data = {**self.describe(points), **net.report.to_dict(), "operations": net.report.operations}
            data["audit"] = None if audit is None else audit.to_dict()
            write_json({**data, "provenance": provenance()}, self.json)
        if self.json != "-":
            out = console()
            out.print(str(net.report), highlight=False, markup=False, soft_wrap=True)
            if audit is not None:
                out.print(f"\n{audit}", highlight=False, markup=False, soft_wrap=True)
        return OK if audit is None or audit.ok else NOT_OK
