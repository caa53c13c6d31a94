"""Benchmarks of networks and kernels: interleaved timings, memory, distance to the limit, growth with N.

`python -m experiments bench` runs `experiments.bench.run`; each part is a file here that returns plain records.
"""
