"""Kinds of point-cloud network, revised and audited; `kinds.py` lists them."""
