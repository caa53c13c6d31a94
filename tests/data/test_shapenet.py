import json

import numpy as np
import pytest
from written_data import clouds

from reqnn.data import load
from reqnn.errors import InputError


@pytest.fixture
def folder(tmp_path):
    """Two synsets: one as in the release with normals, one as in the first release."""
    root = tmp_path / "shapenetcore_partanno_segmentation_benchmark_v0_normal"
    (root / "02691156").mkdir(parents=True)
    (root / "02773838" / "points").mkdir(parents=True)
    (root / "train_test_split").mkdir()
    (root / "synsetoffset2category.txt").write_text("Airplane\t02691156\nBag\t02773838\n")
    for i in range(3):
        rows = np.concatenate([clouds(1, 30, seed=i)[0], clouds(1, 30, seed=9)[0], np.ones((30, 1))], axis=1)
        np.savetxt(root / "02691156" / f"a{i}.txt", rows)
        np.savetxt(root / "02773838" / "points" / f"b{i}.pts", clouds(1, 30, seed=i + 5)[0])
    for i, split in enumerate(("train", "val", "test")):
        entries = [f"shape_data/02773838/b{i}", f"shape_data/02691156/a{i}"]
        (root / "train_test_split" / f"shuffled_{split}_file_list.json").write_text(json.dumps(entries))
    return root


def test_splits_and_classes(folder):
    found = {split: load("shapenet", split, 16, root=folder.parent) for split in ("train", "val", "test")}
    for split, one in found.items():
        assert one.labels.tolist() == [1, 0]
        assert one.classes == ("Airplane", "Bag")
        assert (one.split, one.up, one.name) == (split, "y", "shapenet")
        assert one.normals is None  # the bag has none
    assert not (found["train"].points == found["test"].points).all()


def test_lists_that_do_not_fit(folder):
    listed = folder / "train_test_split" / "shuffled_train_file_list.json"
    for content, message in (
        ('["shape_data/02691156/zzz"]', r"neither .*zzz\.txt nor .*zzz\.pts exists"),
        ('["shape_data/00000000/a0"]', "the synset of .* is not in"),
        ('{"a": 1}', "a list of names"),
        ("[", "cannot be read as JSON"),
    ):
        listed.write_text(content)
        with pytest.raises(InputError, match=message):
            load(folder, "train", 16)
    listed.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        load(folder, "train", 16)
    (folder / "synsetoffset2category.txt").write_text("Airplane\n")
    with pytest.raises(InputError, match="a class name and a synset"):
        load(folder, "test", 16)
