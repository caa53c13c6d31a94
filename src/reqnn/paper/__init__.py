"""The tables and figures of the paper, measured on this implementation and set beside the printed values."""

from reqnn.paper.figure import Figure
from reqnn.paper.figure1 import figure1
from reqnn.paper.figure2 import figure2
from reqnn.paper.table import Table
from reqnn.paper.table1 import table1
from reqnn.paper.table2 import table2
from reqnn.paper.table3 import table3
from reqnn.paper.table4 import table4
from reqnn.paper.table5 import table5

__all__ = ["Figure", "Table", "figure1", "figure2", "table1", "table2", "table3", "table4", "table5"]
