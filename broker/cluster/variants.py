"""Who gets the matches that shards find: a shard knows a query once, however many subscribe to it.

In: the canonical queries that shards match. Out: their *variants*, which is what a shard has of
them, and for each match of a variant those of its subscribers for whom it counts, with their ids
and their text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from broker.cluster.answers import MATCHES, StandIn
from broker.query.canonical import Audience, Canonical, Subscription
from broker.results.match_ids import MatchIds
from broker.shared_match import ID


@dataclass(eq=False)
class Variant:
    """The subscribers of a canonical query whose windows, delivery and stream to publish to are the
    same, in the pieces that share a match (`audiences`). `covered` is the document from which on
    shards have what it needs."""

    number: int
    canonical: Canonical
    audiences: list[Audience]

    @property
    def id(self) -> str:
        """What shards call it; no subscription can have such an id."""
        return f"#{self.number}"

    @property
    def any(self) -> Subscription:
        """One of its subscribers, as shards are told of it."""
        return self.audiences[0].subscribers[0]

    @property
    def first_doc(self) -> int:
        """The first document from which on one of its subscribers matches."""
        return min([each.first_doc for each in self.audiences])


class Variants:
    """The variants of some canonical queries, by number."""

    def __init__(self) -> None:
        self.numbered: dict[int, Variant] = {}
        self._known: dict[int, tuple[list[Audience], dict[object, Variant]]] = {}
        """By canonical query: its audiences when they were looked at last, and its variants by what
        their subscribers have in common. The audiences hold the deliveries, whose identities are
        in these keys."""
        self._number = count(1)
        self._ids = MatchIds()

    def keep(self, canonical: Iterable[Canonical]) -> None:
        """From now on have the variants of these queries, as they are now."""
        wanted = {each.number: each for each in canonical}
        for number in [number for number in self._known if number not in wanted]:
            for gone in self._known.pop(number)[1].values():
                del self.numbered[gone.number]
        for each in wanted.values():
            self._renew(each)

    def _renew(self, canonical: Canonical) -> None:
        audiences = canonical.audiences()
        known = self._known.get(canonical.number)
        if known is not None and known[0] is audiences:
            return
        before = {} if known is None else known[1]
        now: dict[object, Variant] = {}
        for audience in audiences:
            one = audience.subscribers[0]
            if one.number < 0:
                continue  # the tap of a pattern
            key: object = (id(one.delivery), one.windows, one.publish)
            variant = now.get(key)
            if variant is not None:
                variant.audiences.append(audience)
                continue
            variant = now[key] = before.get(key) or Variant(next(self._number), canonical, [])
            variant.audiences = [audience]
            self.numbered[variant.number] = variant
        for key, variant in before.items():
            if key not in now:
                del self.numbered[variant.number]
        self._known[canonical.number] = audiences, now

    def subscribers(self, name: str) -> list[Subscription]:
        """The subscribers of a variant, by what shards call it."""
        variant = self.numbered[int(name[1:])]
        return [each for audience in variant.audiences for each in audience.subscribers]

    def handed_out(self, found: pa.Table, stand_in: StandIn) -> pa.Table:
        """The matches of shards (schema MATCHES) for those who have subscribed: in place of one of
        a variant, one for each piece of its subscribers for whom it counts."""
        if not found.column("queries").null_count:
            return found
        names = ("queries", "ids", "number", "lines", "base")
        rows = zip(*[found.column(name).to_pylist() for name in names], strict=True)
        places: list[int] = []
        columns: dict[str, list[object]] = {name: [] for name in names[:-1]}
        for place, (queries, ids, number, lines, base) in enumerate(rows):
            if queries is not None:
                made = [(queries, ids, number, lines)]
            else:
                made = self._pieces(number, base, ids, lines, stand_in)
            for row in made:
                places.append(place)
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
        whole = found.take(pa.array(places, pa.int64()))
        for name, values in columns.items():
            field = MATCHES.field(name)
            at = MATCHES.get_field_index(name)
            whole = whole.set_column(at, field, pa.array(values, field.type))
        return whole

    def _pieces(
        self, number: int, base: int, suffix: bytes, lines: list[bytes], stand_in: StandIn
    ) -> list[tuple[list[str], bytes, int, list[bytes]]]:
        """Queries, ids, first number and lines of each piece of a variant's subscribers for whom a
        match counts whose oldest document is `base`."""
        found = []
        for audience in self.numbered[number].audiences:
            group = audience.since(base)
            if not group:
                continue
            queries = [each.id for each in group]
            ids = self._ids.of(group, suffix)
            each_id = [ids[at : at + ID].hex() for at in range(0, len(ids), ID)]
            own = [
                stand_in.replaced(line, *said)
                for line in lines
                for said in zip(each_id, queries, strict=True)
            ]
            found.append((queries, ids, group[0].number, own))
        return found
