"""A validation split: by object, stratified by class, duplicates on one side."""

from __future__ import annotations

import numpy as np

from reqnn.data.dataset import PointClouds
from reqnn.data.duplicates import duplicate_groups
from reqnn.data.streams import check_seed, stream
from reqnn.errors import InputError


def split_validation(train: PointClouds, fraction: float = 0.1, seed: int = 0) -> tuple[PointClouds, PointClouds]:
    """Split a training set into (train, validation) by the seed; both keep the order of the clouds.

    Each class gives the fraction of its clouds, rounded, and at least one; a class of a single object stays in train. Clouds
    of one group stay together: `train.groups` if given, else exactly equal clouds (see `duplicate_groups`).
    """
    if not 0 < fraction < 1:
        raise InputError(f"fraction is {fraction}; a share between 0 and 1 is needed, such as 0.1")
    check_seed(seed)
    groups = duplicate_groups(train.points) if train.groups is None else train.groups
    chosen = held_out(train.labels.numpy(), groups.numpy(), fraction, seed)
    if not chosen.any():
        raise InputError(f"{train.name}: no class has two objects or more, so its {len(train)} clouds cannot be split")
    return train.subset(np.flatnonzero(~chosen).tolist()), train.subset(np.flatnonzero(chosen).tolist(), "validation")


def held_out(labels: np.ndarray, groups: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """The samples that `split_validation` holds out: labels (S,), groups (S,) -> (S,) bool."""
    _, first, group, size = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    of_class = labels[first]  # (G,) the class of each group
    out = np.zeros(len(first), dtype=bool)
    for label in np.unique(of_class):
        members = np.flatnonzero(of_class == label)
        members = members[np.argsort(first[members])]
        order = members[np.argsort(stream("split", seed, int(label)).random(len(members)), kind="stable")]
        wanted = max(1, round(fraction * int(size[members].sum())))
        for one in order[:-1]:  # the last object of a class always stays
            if size[one] <= wanted:
                out[one] = True
                wanted -= size[one]
    return out[group]
