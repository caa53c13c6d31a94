"""Point clouds: data sets, rotation protocols, augmentations, the rotated test set."""

from reqnn.data.augmentation import Augmentation
from reqnn.data.dataset import PointClouds, duplicate_groups, split_validation
from reqnn.data.digits import digits
from reqnn.data.loading import data_root, list_datasets, load
from reqnn.data.rotated_test_set import RotatedTestSet, rotated_test_set
from reqnn.data.rotation import PROTOCOLS, random_rotations, rotate
from reqnn.data.scanned import scanned
from reqnn.data.shape_file import read_cloud
from reqnn.data.surfaces import surfaces

__all__ = [
    "PROTOCOLS",
    "Augmentation",
    "PointClouds",
    "RotatedTestSet",
    "data_root",
    "digits",
    "duplicate_groups",
    "list_datasets",
    "load",
    "random_rotations",
    "read_cloud",
    "rotate",
    "rotated_test_set",
    "scanned",
    "split_validation",
    "surfaces",
]
