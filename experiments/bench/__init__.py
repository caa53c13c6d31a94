"""What the networks and their kernels cost: timings taken in turn, memory, distance to the limit, growth with N.

`python -m experiments bench` runs `experiments.bench.run`; each part of it is a file here that returns plain records.
"""
