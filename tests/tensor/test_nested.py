"""Nested arguments and results: what is found in them, and what is put in its place."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field

import torch

from reqnn.tensor.nested import leaves, map_leaves

Pair = namedtuple("Pair", ["first", "second"])


@dataclass(frozen=True)
class Frozen:
    first: int
    second: list
    third: int = field(default=3, init=False)

    def __post_init__(self):
        assert isinstance(self.first, int)


class Named(dict):
    """A dict of somebody's own, with attributes."""


class Deeper(Pair):
    pass


TREE = [
    (1, [2, {"a": 3}], Pair(4, 5)),
    Frozen(6, [7, Pair(8, None)]),
    OrderedDict(a=9),
    Named(b=Deeper(10, 11)),
    torch.Size([12]),
]


def test_all_leaves_are_found():
    assert leaves(TREE) == [1, 2, 3, 4, 5, 6, 7, 8, None, 3, 9, 10, 11, 12]
    assert leaves(1, (2,), a=Frozen(4, [])) == [1, 2, 4, 3]
    assert leaves(Frozen) == [Frozen]  # the class itself


def test_the_structure_stays():
    new = map_leaves(lambda leaf: None if leaf is None else f"<{leaf}>", TREE)
    assert new[0] == ("<1>", ["<2>", {"a": "<3>"}], Pair("<4>", "<5>"))
    assert (new[1].first, new[1].second, new[1].third) == ("<6>", ["<7>", Pair("<8>", None)], "<3>")
    assert new[2] == OrderedDict(a="<9>")
    assert type(new[3]) is Named
    assert type(new[3]["b"]) is Deeper
    assert new[3]["b"].second == "<11>"
    assert TREE[1].first == 6  # what was given is left alone


def test_what_does_not_change_is_not_copied():
    frozen = Frozen(1, 2)
    assert map_leaves(lambda leaf: leaf, [frozen])[0] is frozen
