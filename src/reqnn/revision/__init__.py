"""Revising a network: reading its inputs, cloning its code, the dry run, and the module that comes out."""

from reqnn.revision.module import RevisedModel
from reqnn.revision.revise import revise

__all__ = ["RevisedModel", "revise"]
