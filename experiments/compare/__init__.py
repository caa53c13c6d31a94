"""Rule sets compared on the same networks and data: at equal epochs and at equal time, selected by validation only."""
