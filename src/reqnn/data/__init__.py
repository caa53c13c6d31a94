"""Point clouds: data sets, rotation protocols, augmentations, the rotated test set."""

from reqnn.data.augmentation import Augmentation as Augmentation
from reqnn.data.dataset import (
    PointClouds as PointClouds,
)
from reqnn.data.dataset import (
    duplicate_groups as duplicate_groups,
)
from reqnn.data.dataset import (
    split_validation as split_validation,
)
from reqnn.data.digits import digits as digits
from reqnn.data.loading import data_root as data_root
from reqnn.data.loading import list_datasets as list_datasets
from reqnn.data.loading import load as load
from reqnn.data.rotated_test_set import RotatedTestSet as RotatedTestSet
from reqnn.data.rotated_test_set import rotated_test_set as rotated_test_set
from reqnn.data.rotation import PROTOCOLS as PROTOCOLS
from reqnn.data.rotation import random_rotations as random_rotations
from reqnn.data.rotation import rotate as rotate
from reqnn.data.scanned import scanned as scanned
from reqnn.data.shape_file import read_cloud as read_cloud
from reqnn.data.surfaces import surfaces as surfaces
