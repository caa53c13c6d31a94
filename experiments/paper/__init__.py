"""The tables and figures of the paper, measured on this implementation and set beside the printed values."""
