"""The tables of the paper, measured on this implementation and set beside the printed values."""

from reqnn.paper.table import Table
from reqnn.paper.table1 import table1
from reqnn.paper.table2 import table2
from reqnn.paper.table3 import table3

__all__ = ["Table", "table1", "table2", "table3"]
