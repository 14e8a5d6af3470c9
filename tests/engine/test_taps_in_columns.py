"""Documents of very many different taps are handed over in columns: what is found is what is found
where they come one by one, whatever changes in between."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from broker import Broker, Document
from broker.join.candidates import Found
from broker.join.one_block import TapRows
from broker.standing.in_columns import InColumns
from broker.standing.tap_columns import TapColumns
from tests.seeds import seeds

_VALUES = 12
_A, _B, _C = (f"S/e[./{name} = '{{{n}}}'][./k->{var}]" for n, (name, var) in enumerate(
    (("a", "k"), ("b", "l"), ("c", "m"))
))  # fmt: skip
FORMS = (
    f"{_A} NEXT {{{{l > k, 60 s}}}} {_B}",
    f"{_A} FOLLOWED BY NOT S/e[./b = '{{1}}'] FOLLOWED BY {_C} WITHIN 40 s",
    f"{_A} NEXT {{{{1 min}}}} {_B} NEXT {{{{m > l, 1 min}}}} {_C}",
    "S/e[./a = '{0}'][./k->k] FOLD {{, l > prev(l, k)}} S/e[./a = '{0}'][./k->l]"
    " WHERE count(l) = 2 WITHIN 90 s",
    f"{_A} FOLLOWED BY ({_B})+ FOLLOWED BY {_C} WITHIN 30 s",
    "S/e[./d = '{0}'] NEXT {{1 min}} S/e[./d = '{1}'][./c->x][./k->y]",
)


def _queries(random: Random, count: int, first: int = 0) -> dict[str, str]:
    return {
        f"w{n}": FORMS[n % len(FORMS)].format(*random.choices(range(_VALUES), k=3))
        for n in range(first, first + count)
    }


def _documents(random: Random, count: int, late: int = 0) -> list[Document]:
    """One or two a second, each up to so many seconds too late."""
    found = []
    for n in range(count):
        own = "".join(f"<{name}>{random.randrange(_VALUES)}</{name}>" for name in "abcd")
        at = 1_000.0 + n // 2 - random.randrange(late + 1)
        found.append(
            Document(f"d{n}", timestamp=at, xml=f"<e>{own}<k>{random.randrange(100)}</k></e>")
        )
    return found


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents are handed over at once."""
    counts: list[int] = []
    take = InColumns.take

    def counted(
        self: InColumns, rows: TapRows, columns: TapColumns, seen: Mapping[int, int]
    ) -> list[Found]:
        counts.append(len(rows.docs))
        return take(self, rows, columns, seen)

    monkeypatch.setattr(InColumns, "take", counted)
    return counts


def _found(seed: int, size: int, state: Path | None = None, late: int = 0) -> list[str]:
    """The matches where queries come and go, by batches of a size; with a state all of it is
    started anew in the middle."""
    random = Random(seed)
    queries, more = _queries(random, 100), _queries(random, 60, 100)
    documents = _documents(random, 600, late)
    found: list[str] = []

    def go(running: Broker, low: int, high: int) -> None:
        for at in range(low, high, size):
            found.extend(each.id for each in running.process(documents[at : min(at + size, high)]))

    running = Broker(state, lateness=late)
    try:
        running.subscribe(";\n".join(f"{name}: {text}" for name, text in queries.items()))
        go(running, 0, 200)
        running.subscribe(";\n".join(f"{name}: {text}" for name, text in more.items()))
        running.subscribe("other: S/e[./a = '1'][./k->k] FOLLOWED BY {k = l, 9 s} S/e[./k->l]")
        for n in range(0, 100, 3):
            running.unsubscribe(f"w{n}")
        go(running, 200, 300)
        if state is not None:
            running.close()
            running = Broker(state, lateness=late)
        go(running, 300, 600)
        found.extend(each.id for each in running.decide())
        assert not running.engine.take_suspensions()
    finally:
        running.close()
    return sorted(found)


@pytest.mark.parametrize("seed", seeds(2, 8))
@pytest.mark.parametrize("late", [0, 5])
def test_batches_change_nothing(seed: int, late: int, handed: list[int]) -> None:
    one_by_one = _found(seed, 1, late=late)
    assert not handed
    assert len(one_by_one) > 100
    assert _found(seed, 100, late=late) == one_by_one
    assert sum(handed) > 100
    assert _found(seed, 9, late=late) == one_by_one


@pytest.mark.parametrize("seed", range(2))
def test_restarts_change_nothing(seed: int, tmp_path: Path, handed: list[int]) -> None:
    wanted = _found(seed, 50, late=3)
    count = sum(handed)
    assert _found(seed, 50, tmp_path / "state", late=3) == wanted
    assert sum(handed) > count + 100
