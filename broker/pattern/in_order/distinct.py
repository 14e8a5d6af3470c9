"""What queries find, each match once: several choices of nodes may be the same match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from broker.pattern.in_order.events import Candidate
from broker.pattern.in_order.shared import Shared
from broker.pattern.instances import Instance, due_beyond
from broker.pattern.published import Published, identity_of, nodes_of, order_of

Found = tuple[int, int, int, int, Instance]
"""The end and the start of a match, the number of what waited, its place among those of its query,
and the match."""


def distinct(shared: Shared, found: list[Found]) -> list[Published]:
    """The matches that a query has found, each once and in order."""
    names = shared.names
    if len(found) == 1:
        return [Published(found[0][4], names)]
    found.sort()
    answer: list[Published] = []
    first, count = 0, len(found)
    while first < count:
        end, start, _, _, instance = found[first]
        stop = first + 1
        while stop < count and found[stop][0] == end and found[stop][1] == start:
            stop += 1
        if stop == first + 1:
            # The same match would have the same times, and only in what has them there is an order.
            answer.append(Published(instance, names))
        else:
            answer += _of_one_time(shared, [each[4] for each in found[first:stop]])
        first = stop
    return answer


def undecided(
    shared: Shared,
    found: Iterable[Candidate],
    made: Callable[[Candidate], Instance | None],
    kept: Iterable[Published],
) -> Iterator[tuple[int, Instance]]:
    """What waits of a query, once, with twice the watermark that decides it: of candidates, what is
    made of them, and what is kept for what looks at several matches."""
    ready = [*kept]
    seen = {each.identity for each in ready}
    for candidate in sorted(found, key=itemgetter(1)):
        instance = made(candidate)
        if instance is not None:
            identity = identity_of(instance, nodes_of(instance, shared.names))
            if identity not in seen:
                seen.add(identity)
                yield instance.due, instance
    for each in ready:
        yield due_beyond(each.instance.end), each.instance


def _of_one_time(shared: Shared, found: Sequence[Instance]) -> list[Published]:
    """The matches that begin at one time and end at one, each once and in order."""
    of_blocks = shared.of_blocks
    if of_blocks:
        by_ids = {tuple([row.id for row in each.rows]): each for each in found}
        if len(by_ids) == len(found):
            return [Published(by_ids[ids], shared.names) for ids in sorted(by_ids)]
    seen: dict[object, Published] = {}
    made: list[tuple[Any, Published]] = []
    for instance in found:
        nodes = nodes_of(instance, shared.names)
        # With a document for each slot these tell it apart and order it.
        identity: object = (
            (*[row.doc for row in instance.rows], nodes)
            if of_blocks
            else identity_of(instance, nodes)
        )
        if identity in seen:
            seen[identity].prefer(instance)
            continue
        decided = seen[identity] = Published(instance, shared.names)
        order: object = (
            (*[row.id for row in instance.rows], nodes) if of_blocks else order_of(instance, nodes)
        )
        made.append((order, decided))
    made.sort(key=itemgetter(0))
    return [decided for _, decided in made]
