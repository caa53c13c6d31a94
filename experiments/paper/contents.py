"""All tables and figures of the paper, by name."""

from experiments.harness.table import Table
from experiments.paper.figure import Figure
from experiments.paper.figure1 import figure1
from experiments.paper.figure2 import figure2
from experiments.paper.table1 import table1
from experiments.paper.table2 import table2
from experiments.paper.table3 import table3
from experiments.paper.table4 import table4
from experiments.paper.table5 import table5

__all__ = ["Figure", "Table", "figure1", "figure2", "table1", "table2", "table3", "table4", "table5"]
