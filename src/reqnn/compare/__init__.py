"""Rule sets compared on the same networks and data: at equal epochs and at equal time, selected by validation only."""

from reqnn.compare.contest import Contest, trials
from reqnn.compare.pace import measure_pace
from reqnn.compare.report import comparison

__all__ = ["Contest", "comparison", "measure_pace", "trials"]
