"""Training runs that wait for one core, in order."""
