"""Trained networks at work: files that run without this package, and embeddings of clouds."""

from reqnn.deploy.embedding import embed, predict
from reqnn.deploy.exporter import export

__all__ = ["embed", "export", "predict"]
