"""Who gets the matches that shards find: a shard knows a query once, however many subscribe to it.

In: the canonical queries that shards match. Out: their *variants*, which is what a shard has of
them, and for each match of a variant those of its subscribers for whom it counts, with their ids
and their text. Subscribers of an event pattern have a variant in common if they know the same
documents, and the pattern remembers no matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import pyarrow as pa

from broker.cluster.answers import MATCHES, StandIn
from broker.model import COUNTED, Waiting
from broker.query.canonical import Audience, Canonical, Subscription
from broker.results.match_ids import MatchIds
from broker.shared_match import ID
from broker.standing.live import kind
from broker.state.pattern_tables import Entry


@dataclass(eq=False)
class Variant:
    """The subscribers of a canonical query whose windows, delivery and stream to publish to are the
    same, in the pieces that share a match (`audiences`). `entry` is how an event pattern is
    registered, by the variant's number."""

    number: int
    canonical: Canonical
    audiences: list[Audience]
    entry: Entry | None = None

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


def is_pattern(canonical: Canonical) -> bool:
    """Whether it is that of an event pattern."""
    return any(each.pattern is not None for each in canonical.subscribers.values())


class Variants:
    """The variants of some canonical queries, by number."""

    def __init__(self) -> None:
        self.numbered: dict[int, Variant] = {}
        self._known: dict[int, tuple[list[Audience], dict[object, Variant]]] = {}
        """By canonical query: its audiences when they were looked at last, and its variants by what
        their subscribers have in common. The audiences hold the deliveries, whose identities are
        in these keys."""
        self._entries: Mapping[int, Entry] = {}
        self._number = count(1)
        self._ids = MatchIds()

    def keep(self, canonical: Iterable[Canonical], entries: Mapping[int, Entry]) -> None:
        """From now on have the variants of these queries, as they are now; `entries` are those of
        event patterns, by their numbers, another object when they have changed."""
        changed, self._entries = entries is not self._entries, entries
        wanted = {each.number: each for each in canonical}
        for number in [number for number in self._known if number not in wanted]:
            for gone in self._known.pop(number)[1].values():
                del self.numbered[gone.number]
        for each in wanted.values():
            self._renew(each, changed)

    def _renew(self, canonical: Canonical, changed: bool) -> None:
        audiences = canonical.audiences()
        known = self._known.get(canonical.number)
        if known is not None and known[0] is audiences and not (changed and is_pattern(canonical)):
            return
        before = {} if known is None else known[1]
        now: dict[object, Variant] = {}
        for key, audience in self._pieces_of(audiences):
            variant = now.get(key)
            if variant is not None:
                variant.audiences.append(audience)
                continue
            variant = now[key] = before.get(key) or Variant(next(self._number), canonical, [])
            variant.audiences = [audience]
            self.numbered[variant.number] = variant
            if variant.any.pattern is not None:
                entry = self._entries[variant.any.number]
                variant.entry = entry._replace(number=variant.number)
        for key, variant in before.items():
            if key not in now:
                del self.numbered[variant.number]
        self._known[canonical.number] = audiences, now

    def _pieces_of(self, audiences: Iterable[Audience]) -> Iterator[tuple[object, Audience]]:
        """Subscribers who share a match, each with what tells their variant apart."""
        for audience in audiences:
            one = audience.subscribers[0]
            if one.number < 0:
                continue  # the tap of a pattern
            key = (id(one.delivery), one.windows, one.publish)
            if one.pattern is None:
                yield key, audience
                continue
            kinds: dict[object, list[Subscription]] = {}
            for each in audience.subscribers:
                kinds.setdefault(kind(each, self._entries[each.number]), []).append(each)
            for of, group in kinds.items():
                yield (*key, of), Audience(group)

    def patterns(self) -> Iterator[tuple[Variant, Entry]]:
        """Those of event patterns."""
        for variant in self.numbered.values():
            if variant.entry is not None:
                yield variant, variant.entry

    def waiting(self, told: Iterable[Waiting]) -> list[Waiting]:
        """What shards say that waits, for those who have subscribed. Of subscriptions that have
        changed since the last round they do not know yet: what has gone waits for nothing."""
        found: dict[str, Waiting] = {}
        for each in told:
            if int(each.query[1:]) not in self.numbered:
                continue
            for subscription in self.subscribers(each.query):
                known = found.get(subscription.id, Waiting(subscription.id, 0, None))
                dues = [due for due in (known.decides, each.decides) if due is not None]
                count = min(COUNTED, known.count + each.count)
                found[subscription.id] = Waiting(known.query, count, min(dues, default=None))
        return [*found.values()]

    def subscribers(self, name: str) -> list[Subscription]:
        """The subscribers of a variant, by what shards call it."""
        variant = self.numbered[int(name[1:])]
        return [each for audience in variant.audiences for each in audience.subscribers]

    def names(self, canonical: Iterable[int]) -> frozenset[str]:
        """What shards call the variants of these canonical queries."""
        known = [self._known[number][1] for number in canonical if number in self._known]
        return frozenset([variant.id for each in known for variant in each.values()])

    def handed_out(self, found: pa.Table, stand_in: StandIn) -> pa.Table:
        """The matches of shards (schema MATCHES) for those who have subscribed: in place of one of
        a variant, one for each piece of its subscribers for whom it counts."""
        if not found.num_rows:
            return found
        read = [found.column(name).to_pylist() for name in ("number", "base", "ids", "lines")]
        places: list[int] = []
        columns: dict[str, list[object]] = {n: [] for n in ("queries", "ids", "number", "lines")}
        for place, (number, base, ids, lines) in enumerate(zip(*read, strict=True)):
            for row in self._pieces(number, base, ids, lines, stand_in):
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
