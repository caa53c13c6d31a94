"""Compiled loops, each beside its plain-torch twin: the oracle, and what runs on other devices."""
