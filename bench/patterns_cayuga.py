"""How many events a second do Cayuga's templates take, with 1,000 to 400,000 subscriptions?

    python -m bench.patterns_cayuga [--quick]

The templates Filter, NonDeterministic and Fold, those of feeds, and Double-Top. First the step from
rows to candidates: what stage 1 gives is which subscriptions have the constants of an event. As the
engine does, the two templates that have a state are handed batches in columns, and few events one
by one; filters are what the engine itself makes of witness rows, one candidate for all
subscriptions that ask the same. Beside it Python by hand with the same index, which
knows that no two events are of the same second, and that none is late. Then from XML to matches.
All find as many matches, which is asserted. Events per CPU second.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from bench import cayuga
from bench.cayuga import TEMPLATES
from bench.frozen import frozen
from bench.measure import BROKER, finish, parser, table
from bench.pattern_rows import EXPIRES, compiled, quotes, rate
from broker import Broker, Document
from broker.join.candidates import Found
from broker.join.one_block import MANY, Tapping
from broker.pattern.in_order.channels import Channel
from broker.pattern.in_order.standing import Together
from broker.pattern.instances import Row

_US = 1_000_000
Given = tuple[int, Channel, int, Row]
"""The attribute of subscriptions, the channel that they are for a tap, that, and a row of it."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Batch = tuple[list[Given], tuple[Numbers, Numbers] | None]
"""Rows, and as columns their attributes and the numbers of their channels."""

Points = list[tuple[float, float]]
_SIZES = (1, 100, 1_000)
_LONG = 3 * cayuga.WINDOW


def step(
    template: str, asked: Sequence[cayuga.Asked], every: Sequence[cayuga.Event], size: int
) -> tuple[float, int]:
    """CPU seconds of the step for events in batches, and the number of candidates. The queries of
    each attribute have one form. Each constant has come before, so long ago that nothing is left of
    that but what is made for its first event."""
    groups: list[Together] = []
    for attribute in range(cayuga.ATTRIBUTES):
        shared = compiled(TEMPLATES[template].format(attribute, 0, 0)).ordered
        assert shared is not None
        groups.append(Together(shared, 1 << 60))
    for owner, each in enumerate(asked):
        groups[each.attribute].join(owner, 0)
    channels: dict[tuple[int, int, int], Channel] = {}
    for tap, index in enumerate(cayuga.indexes(asked)):
        old = _row(tap, -1, cayuga.START - _LONG, 0)
        for (attribute, value), owners in index.items():
            channel = channels[tap, attribute, value] = Channel(owners)
            groups[attribute].offer(channel, tap, old)
    for group in groups:
        group.decided((cayuga.START - _LONG) * _US)
        group.expire(cayuga.START * _US)
    given: list[list[Given]] = []
    for number, (at, values, k) in enumerate(every):
        own: list[Given] = []
        for tap in range(2):
            row = _row(tap, number, at, k)
            for attribute, value in enumerate(values):
                to = channels.get((tap, attribute, value))
                if to is not None:
                    own.append((attribute, to, tap, row))
        given.append(own)
    batches = [_batch(groups, given[first : first + size]) for first in range(0, len(given), size)]
    with frozen():
        found, begun = 0, time.process_time()
        for first, (own, columns) in zip(range(0, len(given), size), batches, strict=True):
            touched = set()
            if columns is None:
                for attribute, to, tap, row in own:
                    groups[attribute].offer(to, tap, row)
                    touched.add(attribute)
            else:
                for attribute, group in enumerate(groups):
                    chosen = np.flatnonzero(columns[0] == attribute)
                    if len(chosen):
                        group.offer_all(columns[1][chosen], [own[n][-1] for n in chosen.tolist()])
                        touched.add(attribute)
            watermark = every[min(first + size, len(every)) - 1][0] * _US
            for attribute in touched:
                found += len(groups[attribute].decided(watermark))
            if first // EXPIRES != (first + size) // EXPIRES:
                for group in groups:
                    group.expire(watermark)
        taken = time.process_time() - begun
    return taken, found


def filters(texts: str, documents: Sequence[Document], size: int) -> tuple[float, int]:
    """CPU seconds from witness rows to candidates for events in batches, and the number of
    matches."""
    spent = 0.0
    with Broker(lateness=0) as running:
        running.subscribe(texts)
        running.process([])
        joiner = running.engine.joiner
        candidates = joiner.candidates

        def timed(rows: pa.Table, tapping: Tapping | None = None) -> list[Found]:
            nonlocal spent
            begun = time.process_time()
            made = candidates(rows, tapping)
            spent += time.process_time() - begun
            return made

        with patch.object(joiner, "candidates", timed), frozen():
            found = 0
            for first in range(0, len(documents), size):
                found += len(running.process(documents[first : first + size]))
    return spent, found


def _batch(groups: Sequence[Together], given: Sequence[list[Given]]) -> Batch:
    """The rows of a batch, and if these are many in columns."""
    rows = [each for own in given for each in own]
    if len(given) < MANY:
        return rows, None
    attributes = np.array([attribute for attribute, *_ in rows])
    return rows, (attributes, np.array([groups[a].number_of(to, tap) for a, to, tap, _ in rows]))


def _row(tap: int, number: int, at: int, k: int) -> Row:
    """What a block takes of an event: the first one binds k, the second one l."""
    name = "kl"[tap]
    end = at * _US
    return Row(number, number, number, end, end, str(number), 1, {name: 2}, {name: [str(k)]})


def from_xml(texts: Sequence[str], documents: Sequence[Document]) -> tuple[float, float, int]:
    """CPU seconds to register and for the documents, in batches of 100; and the matches."""
    with Broker(lateness=0) as running:
        begun = time.process_time()
        running.subscribe(_named(texts))
        running.process([])
        registered = time.process_time() - begun
        with frozen():
            found, begun = 0, time.process_time()
            for first in range(0, len(documents), 100):
                found += len(running.process(documents[first : first + 100]))
            taken = time.process_time() - begun
        assert not running.engine.take_suspensions()
    return registered, taken, found


def steps(counts: Sequence[int], every: Sequence[cayuga.Event]) -> tuple[str, dict[str, Points]]:
    """The table of the step, and its points at batches of 1,000."""
    rows: list[list[str]] = []
    points: dict[str, Points] = defaultdict(list)
    documents = [_document(event[0], cayuga.xml(event)) for event in every]
    for template in TEMPLATES:
        for count in counts:
            asked = cayuga.subscriptions(template, count)
            texts = _named(_texts(template, asked))
            begun = time.process_time()
            wanted = cayuga.by_hand(template, asked, every)
            by_hand = time.process_time() - begun
            cells = [template, f"{count:,}", f"{wanted:,}"]
            for size in _SIZES:
                if template == "Filter":
                    taken, found = filters(texts, documents, size)
                else:
                    taken, found = step(template, asked, every, size)
                assert found == wanted, f"{template}, {count}: {found} matches, and {wanted}"
                cells.append(rate(len(every), taken))
            rows.append([*cells, rate(len(every), by_hand)])
            points[f"{template}, {BROKER}"].append((count, len(every) / taken))
            points[f"{template}, Python by hand"].append((count, len(every) / by_hand))
            print(*rows[-1], sep=" | ", flush=True)
    header = ["template", "subscriptions", "matches", *(f"batch {n:,}" for n in _SIZES)]
    return table([*header, "Python by hand"], rows), points


Case = tuple[str, list[str], list[Document], Callable[[], int]]


def cases(counts: Sequence[int], number: int) -> list[Case]:
    """Templates with their texts, their documents, and what counts their matches."""
    found: list[Case] = []
    every = cayuga.events(number)
    documents = [_document(event[0], cayuga.xml(event)) for event in every]
    for name in TEMPLATES:
        for count in counts:
            asked = cayuga.subscriptions(name, count)
            by_hand = partial(cayuga.by_hand, name, asked, every)
            found.append((name, _texts(name, asked), documents, by_hand))
    items = cayuga.items(number)
    documents = [_document(item[0], cayuga.item_xml(item)) for item in items]
    for name, text in cayuga.FEEDS.items():
        for count in counts:
            asked_of = cayuga.feed_queries(count)
            texts = [text.format(site, least) for site, least in asked_of]
            found.append(
                (
                    f"feeds: {name}",
                    texts,
                    documents,
                    partial(cayuga.feed_matches, name, asked_of, items),
                )
            )
    every_quote = quotes(number, 10)
    documents = [
        _document(at, f"<q><s>{symbol}</s><p>{price}</p></q>") for at, symbol, price in every_quote
    ]
    own: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, symbol, price in every_quote:
        own[symbol].append((at, price))
    for count in (10, *counts):
        texts = [cayuga.DOUBLE_TOP.format(n) for n in range(count)]
        found.append(
            ("Double-Top", texts, documents, lambda: sum(map(cayuga.double_tops, own.values())))
        )
    return found


def _texts(template: str, asked: Sequence[cayuga.Asked]) -> list[str]:
    text = TEMPLATES[template]
    return [text.format(each.attribute, each.first, each.second) for each in asked]


def _named(texts: Sequence[str]) -> str:
    return ";\n".join(f"w{n}: {text}" for n, text in enumerate(texts))


def _document(at: int, xml: str) -> Document:
    return Document(str(at), timestamp=float(at), xml=xml)


def whole(counts: Sequence[int], number: int) -> str:
    rows = []
    for name, texts, documents, count in cases(counts, number):
        registered, taken, found = from_xml(texts, documents)
        wanted = count()
        assert found == wanted, f"{name}: {found:,} matches, and {wanted:,} by hand"
        cells = [name, f"{len(texts):,}", f"{found:,}", f"{registered:.1f}"]
        rows.append([*cells, rate(len(documents), taken)])
        print(*rows[-1], sep=" | ", flush=True)
    return table(["template", "subscriptions", "matches", "register, s", "documents"], rows)


def main() -> None:
    quick = parser(__doc__).parse_args().quick
    counts = (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 400_000)
    text, points = steps(counts, cayuga.events(500 if quick else 3_000))
    parts = ["The step from rows to candidates, events per CPU second:", text]
    if not quick:
        from bench.plots import lines  # what is only tried draws nothing

        title = "Cayuga's templates in batches of 1,000"
        y = "events per CPU second"
        parts.append(lines("patterns_cayuga", title, "subscriptions", y, points))
    parts.append(
        "From XML to matches, in batches of 100; CPU seconds to register, documents per CPU second:"
    )
    parts.append(whole((200, 1_000) if quick else counts, 300 if quick else 1_000))
    finish("patterns_cayuga", parts, quick)


if __name__ == "__main__":
    main()
