"""Benchmarks: interleaved timings and memory; `python -m experiments bench` times the point operations."""
