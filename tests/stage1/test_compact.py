"""Reference counts, and one item or a dictionary, compared with plain dictionaries."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from xscl.compact import OneOrMany, Uses


class Item(NamedTuple):
    """An item with a key, and what else there is to it."""

    key: int
    text: str = ""


ITEMS: OneOrMany[int, Item] = OneOrMany(lambda item: item.key)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3))))
def test_the_last_use_is_told(steps: list[tuple[bool, int]]) -> None:
    uses: Uses[int] = Uses()
    counts: Counter[int] = Counter()
    for comes, key in steps:
        if comes:
            if counts[key]:  # of the first use the holder knows
                uses.add(key)
            counts[key] += 1
        elif counts[key]:
            counts[key] -= 1
            assert uses.remove(key) == (counts[key] == 0)


@given(st.lists(st.tuples(st.booleans(), st.builds(Item, st.integers(0, 3), st.text(max_size=1)))))
def test_one_or_many_is_a_dictionary(steps: list[tuple[bool, Item]]) -> None:
    held: Item | dict[int, Item] | None = None
    plain: dict[int, Item] = {}
    for comes, item in steps:
        if comes:
            held = ITEMS.add(held, item)
            plain[item.key] = item
        else:
            held = ITEMS.remove(held, item)
            plain.pop(item.key, None)
        assert [*ITEMS.items(held)] == [*plain.values()]
        assert ITEMS.count(held) == len(plain)
        assert [ITEMS.get(held, key) for key in range(4)] == [plain.get(key) for key in range(4)]
        assert (held is None) == (not plain)
        if held is not None:
            collected = {9: Item(9)}
            ITEMS.collect(held, collected)
            assert collected == {9: Item(9)} | plain


def test_one_item_costs_no_dictionary() -> None:
    assert ITEMS.add(None, Item(1)) == Item(1)
    assert isinstance(ITEMS.add(Item(1), Item(2)), dict)
