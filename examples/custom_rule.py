"""A rule for an operation that has none: refused first, then revised and audited.

python examples/custom_rule.py
"""

import torch
from torch import nn

import reqnn


class Net(nn.Module):
    """Clouds (B, N, 3) → logits (B, 5), by an activation that no rule set knows."""

    def __init__(self):
        super().__init__()
        self.local, self.deeper, self.head = nn.Linear(3, 16), nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.deeper(torch.asinh(self.local(x))).mean(1))


torch.manual_seed(0)
points, _ = reqnn.data.surfaces(4, 64, dtype=torch.float32)
try:
    reqnn.revise(Net(), points)
except reqnn.NoRuleError as error:
    print(error, end="\n\n")
else:
    raise AssertionError("asinh of single coordinates depends on the orientation")

mine = reqnn.rules.RuleSet("mine", parent=reqnn.get_rules("paper"))


@mine.rule("asinh", row="user", extension=True)
def squash(x):
    """f·asinh‖f‖ / ‖f‖: the length is shortened, the direction stays."""
    norm = x.norm_of_elements()
    return x * (torch.asinh(norm) / norm.clamp(min=1e-12))


net = reqnn.revise(Net(), points, rules=mine)
report = reqnn.audit(net, points, rotations=4, permutations=2)
print(report)
assert report.ok
