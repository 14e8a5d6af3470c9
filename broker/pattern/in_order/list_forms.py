"""Lists of blocks, which are matched when their last document comes.

They are two to four blocks in order, without groups or NOTs, whose documents are found by one key:
the value of a variable of each, where equalities tie all of them, or none, where nothing ties them;
and the partition. What ties some of them alone, and longer lists, are planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt

from broker.pattern.equalities import classes, pair_of, pairs_of
from broker.pattern.in_order.asking import Number, number, relational
from broker.pattern.instances import Row
from broker.pattern.plan import Conjunct, Leaf, Ordered, Plan, Window
from broker.pattern.values import Scope, names

Chosen = Sequence[Row]
"""Documents by their places. What is not chosen yet is not looked at."""

MOST = 4
"""Blocks of a list. Of more it matters in which order they are chosen, which is planned."""

_COMPARED = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Check:
    """What is asked of the documents at some places."""

    places: frozenset[int]
    holds: Callable[[Chosen], bool]


@dataclass(frozen=True, slots=True)
class Listed:
    """Blocks in order. `ties` are the variables by whose value documents are found, None for none.
    A document ends at most `reach` after the start of the first one, and `after` behind the end of
    the one before it, by their places. `whole` are the conjuncts that are asked of
    a match, as they name its length; a document is needed for `kept` microseconds."""

    leaves: tuple[Leaf, ...]
    ties: tuple[str | None, ...]
    partitioned: bool
    reach: tuple[Window, ...]
    after: tuple[Window, ...]
    checks: tuple[Check, ...]
    whole: tuple[Conjunct, ...]
    kept: Window

    @property
    def name(self) -> str:
        return f"a list of {len(self.leaves)} blocks"


def listed_of(plan: Plan, tree: Ordered) -> Listed | None:
    """The form of a list, if its items are such blocks."""
    unit, windows = plan.unit, tree.windows
    leaves = tuple([item for item in tree.items if isinstance(item, Leaf)])
    if not 2 <= len(leaves) <= MOST or len(leaves) < len(tree.items) or windows[0][0] is not None:
        return None
    places = {name: place for place, leaf in enumerate(leaves) for name in leaf.variables}
    ties = _ties(unit.conjuncts, places, len(leaves))
    partitioned = bool(plan.query.partition)
    checks: list[Check] = []
    whole: list[Conjunct] = []
    for each in unit.conjuncts:
        if _is_implied(each, places, ties):
            continue
        named = frozenset([places[name] for name in each.names])
        if each.lasts or len(named) < 2:
            whole.append(each)
        elif each.equal is not None and ties[0] is None and not partitioned:
            return None
        else:
            checks.append(Check(named, _holds(each, places)))
    reach: list[Window] = []
    least = unit.within
    for window, after in reversed(windows):
        if window is not None and not after:
            least = window if least is None else min(least, window)
        reach.insert(0, least)
    return Listed(
        leaves,
        ties,
        partitioned,
        tuple(reach),
        tuple([window if after else None for window, after in windows]),
        tuple(checks),
        tuple(whole),
        plan.kept,
    )


def _ties(
    conjuncts: Sequence[Conjunct], places: dict[str, int], count: int
) -> tuple[str | None, ...]:
    """A variable of each place that equals all the others in every match; None where there are not
    that many."""
    for together in classes(pairs_of(conjuncts)):
        of = {places[name]: name for name in sorted(together, reverse=True)}
        if len(of) == count:
            return tuple([of[place] for place in range(count)])
    return (None,) * count


def _is_implied(each: Conjunct, places: dict[str, int], ties: Sequence[str | None]) -> bool:
    """Whether documents that are found by one value satisfy a conjunct."""
    pair = pair_of(each)
    return pair is not None and all(ties[places[name]] == name for name in pair)


def _holds(each: Conjunct, places: dict[str, int]) -> Callable[[Chosen], bool]:
    for found in _compared(each, places):
        return found
    pair = pair_of(each)
    if pair is not None:
        (one, other), (a, b) = pair, [places[name] for name in pair]
        return lambda rows: rows[a].values[one][0] == rows[b].values[other][0]
    named, holds = [(name, places[name]) for name in each.names], each.holds
    return lambda rows: holds(Scope({name: rows[place] for name, place in named}))


def _compared(each: Conjunct, places: dict[str, int]) -> Iterator[Callable[[Chosen], bool]]:
    """An inequality of numbers of two documents."""
    for op, left, right in relational(each.expr):
        sides: list[tuple[Number, int]] = []
        for side in (left, right):
            of = {places[name] for name in names(side)}
            own = frozenset([name for name, place in places.items() if place in of])
            read = number(side, own) if len(of) == 1 else None
            if read is not None:
                sides.append((read, min(of)))
        if len(sides) == 2:
            yield _pair(op, *sides)


def _pair(op: str, left: tuple[Number, int], right: tuple[Number, int]) -> Callable[[Chosen], bool]:
    compared, (ours, a), (theirs, b) = _COMPARED[op], left, right
    return lambda rows: compared(ours(rows[a]), theirs(rows[b]))
