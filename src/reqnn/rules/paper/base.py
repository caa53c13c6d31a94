"""The paper's set of rules: Table 1, one file a row, on top of the algebra of quaternions."""

from reqnn.rules.algebra import algebra
from reqnn.rules.registry import RuleSet

paper = RuleSet("paper", parent=algebra, options={"c": 1.0, "frame": "signed", "fused": True})
"""Options: ``c``, the constant of the ReLU rule, or "mean" for the mean norm of the features; ``frame``, how the PCA frame gets
its signs: "signed" by third moments, "average" over the four right-handed frames; ``fused``, whether blocks with a fused form
get it (the same function, faster) or run operation by operation."""
