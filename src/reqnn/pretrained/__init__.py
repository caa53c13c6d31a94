"""Pretrained networks: load them, classify files with them."""

from reqnn.pretrained.classify import classify, cloud_in_any_pose, find_files
from reqnn.pretrained.loading import load
from reqnn.train.run import list_weights

__all__ = ["classify", "cloud_in_any_pose", "find_files", "list_weights", "load"]
