"""`audit`: measure rotation equivariance and permutation invariance of a network, layer by layer.

report = audit(net, points)     # any nn.Module, revised or not
report.ok, report.first_rotation_failure, print(report)
"""

from reqnn.auditing.passes import audit
from reqnn.auditing.report import AuditReport, AuditRow

__all__ = ["AuditReport", "AuditRow", "audit"]
