"""Trained networks that come with the package: load them, use them on files."""

from reqnn.pretrained.classify import classify, cloud_in_any_pose, find_files
from reqnn.pretrained.loading import load
from reqnn.train.shipped import list_weights

__all__ = ["classify", "cloud_in_any_pose", "find_files", "list_weights", "load"]
