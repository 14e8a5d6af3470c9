"""Stage 1 of one document, searched with care (`broker/join/work.py`): the queries are found whose
patterns do not get past it, and the document is witnessed without these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from broker.documents.arrow import Arrivals
from broker.documents.witnessing import arrivals
from broker.join.work import Work
from broker.query.catalog import Catalog
from feeds.rows import DocumentRow
from xscl.growth import growing
from xscl.stage1.matcher import Matcher


def with_care(
    matcher: Matcher, catalog: Catalog, work: Work, rows: Sequence[DocumentRow]
) -> Arrivals:
    """The documents with their witnesses, without the edges that only queries have that are set
    aside. Raises Stopped; then the group of `work` says whose patterns were matched."""
    canonical = catalog.canonical
    numbers = sorted(number for number, each in canonical.items() if each.variables)

    def name(number: int) -> str:
        return canonical[number].name

    assert work.care is not None
    work.care.know(map(name, numbers))
    parts = [*work.parts(numbers, name)]
    left = [number for _, part in parts for number in part]
    if len(left) == len(numbers) and len(parts) == 1:
        with work.on(parts[0][0]):
            return arrivals(matcher, rows)
    for group, part in parts:
        with work.on(group):
            arrivals(_only(catalog, _edges(catalog, part)), rows)
    without = _edges(catalog, numbers) - _edges(catalog, left)
    gone = [(id, catalog.edges[id]) for id in sorted(without & matcher.edges.keys())]
    matcher.change((id, None) for id, _ in gone)
    try:
        return arrivals(matcher, rows)
    finally:
        matcher.change(gone)


def _edges(catalog: Catalog, numbers: Iterable[int]) -> set[int]:
    """The edges of canonical queries."""
    return {edge for number in numbers for edge in catalog.canonical[number].edges}


def _only(catalog: Catalog, ids: Collection[int]) -> Matcher:
    """A matcher of some edges."""
    with growing(len(ids)):
        return Matcher(catalog.edges[id] for id in sorted(ids))
