"""The workloads: feed items, the technical benchmark's pairs of documents, and queries over them.

All of it is seeded: the same arguments give the same documents and queries. From the paper (Hong et
al., SIGMOD 2007; dissertation, section 6.6): queries of two blocks over one schema, joined by
FOLLOWED BY, with k value joins, k from a Zipf distribution over 1..K, distinct leaves of the first
block with distinct leaves of the second, chosen at random; the two- and the three-level schema; and
the size of the feed experiment, 225,000 items of 418 channels, five leaves, windows of INFINITY.
Everything else, all skews and the default parameters above all, is our own choice.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from bench.workload import UNBOUNDED, Constant, Documents, Query, Schema, flat

ITEMS = 225_000
CHANNELS = 418
SECOND = 1_000_000
TITLE, LINK, AUTHOR, CATEGORY, CHANNEL = range(5)
ITEM = flat("item", ("title", "link", "author", "category", "channel"))
_START = 1_767_225_600 * SECOND
_SYLLABLES = ["ba", "den", "fo", "gra", "hul", "ist", "jor", "kel", "lom", "mar", "nev", "ost"]
_SYLLABLES += ["pri", "quo", "ras", "tel", "und", "vor", "wes", "yal", "zin"]


class _Dictionary:
    """Strings by number."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        found = self._ids.get(text)
        if found is None:
            found = self._ids[text] = len(self.strings)
            self.strings.append(text)
        return found


def _zipf(size: int, skew: float) -> list[float]:
    """Cumulative weights of ranks 1 to `size`."""
    return list(accumulate(rank**-skew for rank in range(1, size + 1)))


def _words(rng: random.Random, count: int) -> list[str]:
    """Distinct made-up words of two to four syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4)))] = None
    return list(words)


class _Channel:
    """A feed: its address, its people and its categories."""

    def __init__(self, number: int, rng: random.Random, words: list[str]) -> None:
        self.url = f"https://{words[number]}.example/feed"
        self.site = f"https://{words[number]}.example"
        people = 1 + min(19, int(rng.expovariate(0.2)))
        self.bylines = [f"{a.title()} {b.title()}" for a, b in _pairs(rng, words, people)]
        self.categories = rng.sample(words[1_000:1_060], rng.randint(1, 12))
        self.briefing = f"{words[number]} briefing".capitalize()
        self.minutes = rng.random() < 0.3
        self._by_rank = _zipf(len(self.bylines), 1.0), _zipf(len(self.categories), 1.0)

    def byline(self, rng: random.Random) -> str:
        return rng.choices(self.bylines, cum_weights=self._by_rank[0])[0]

    def category(self, rng: random.Random) -> str:
        return rng.choices(self.categories, cum_weights=self._by_rank[1])[0]


def _pairs(rng: random.Random, words: list[str], count: int) -> list[tuple[str, str]]:
    return [(rng.choice(words[2_000:]), rng.choice(words[2_000:])) for _ in range(count)]


def rss(count: int = ITEMS, channels: int = CHANNELS, seed: int = 1) -> Documents:
    """Feed items: title, link, author, category, channel address.

    Our choices: channel sizes are Zipf (0.9, so the largest has a tenth of all items). A channel
    has 1 to 20 bylines and 1 to 12 of 60 categories, both Zipf; one item in twenty has one of 25
    bylines that all channels share. One item in twenty repeats the title of an earlier item of any
    channel, and two in five of those its link too; one in fifty has its channel's standing title;
    one in a hundred links to its channel's address; one in two hundred has its category for an
    author. All other titles and links are new. An item comes every 20 seconds; three channels in
    ten date by the minute, so that timestamps repeat.
    """
    rng = random.Random(seed)
    words = _words(rng, 6_000)
    feeds = [_Channel(n, rng, words) for n in range(channels)]
    shared = [f"{a.title()} {b.title()}" for a, b in _pairs(rng, words, 25)]
    chosen = rng.choices(feeds, cum_weights=_zipf(channels, 0.9), k=count)
    common = _zipf(len(words), 0.7)
    number = _Dictionary()
    rows: list[tuple[int, ...]] = []
    times: list[int] = []
    clock = 0.0
    for i, feed in enumerate(chosen):
        clock += rng.expovariate(1 / 20)
        title = " ".join(rng.choices(words, cum_weights=common, k=rng.randint(5, 9))).capitalize()
        link = f"{feed.site}/{i}/{title[:24].replace(' ', '-').lower()}"
        row = [number(feed.briefing if rng.random() < 0.02 else title), number(link)]
        if rows and rng.random() < 0.05:
            earlier = rows[-rng.randint(1, min(len(rows), 2_000))]
            row = [earlier[TITLE], earlier[LINK] if rng.random() < 0.4 else row[LINK]]
        if rng.random() < 0.01:
            row[LINK] = number(feed.url)
        category = feed.category(rng)
        author = rng.choice(shared) if rng.random() < 0.05 else feed.byline(rng)
        if rng.random() < 0.005:
            author = category
        rows.append((*row, number(author), number(category), number(feed.url)))
        second = int(clock)
        times.append(_START + (second - second % 60 if feed.minutes else second) * SECOND)
    order = np.argsort(np.array(times, np.int64), kind="stable")
    ids = np.array(rows, np.int64).reshape(count, 5)[order]
    return Documents(ITEM, number.strings, ids, np.array(times, np.int64)[order])


def technical(schema: Schema, pairs: int, domain: int = 2, seed: int = 1) -> Documents:
    """Documents two at a time, as in sections 6.6.1 and 6.6.2: they join within a pair only.

    Our choice: each pair has its own `domain` values, and every leaf one of them at random, so a
    query of k joins matches a pair with probability domain to the power -k.
    """
    rng = np.random.default_rng(seed)
    shape = (2 * pairs, len(schema.leaves))
    strings = [f"value {v} of pair {p}" for p in range(pairs) for v in range(domain)]
    own = np.repeat(np.arange(pairs), 2)[:, None] * domain
    ids = own + rng.integers(0, domain, shape)
    timestamps = _START + np.arange(2 * pairs, dtype=np.int64) * SECOND
    return Documents(schema, strings, ids.astype(np.int64), timestamps)


def wide(count: int, leaves: int = 12, seed: int = 1) -> Documents:
    """Documents with many leaves of one domain, so that any leaf may equal any other.

    Values are uniform over half as many values as there are documents; one document in ten takes
    each leaf with probability 0.7 from an earlier document, so that joins of several leaves match.
    """
    rng = np.random.default_rng(seed)
    domain = max(2, count // 2)
    ids = rng.integers(0, domain, (count, leaves))
    for i in np.flatnonzero(rng.random(count) < 0.1).tolist():
        if i:
            earlier = ids[i - int(rng.integers(1, min(i, 500) + 1))]
            ids[i] = np.where(rng.random(leaves) < 0.7, earlier, ids[i])
    timestamps = _START + np.arange(count, dtype=np.int64) * SECOND
    schema = flat("record", [f"f{n + 1}" for n in range(leaves)])
    return Documents(
        schema, [f"value {v}" for v in range(domain)], ids.astype(np.int64), timestamps
    )


def _joins(
    rng: random.Random, leaves: int, sizes: Sequence[float], most: int
) -> tuple[tuple[int, int], ...]:
    k = rng.choices(range(1, most + 1), cum_weights=sizes)[0]
    # The first sample sorted, the second at random: each matching of two sets is equally likely.
    left = sorted(rng.sample(range(leaves), k))
    return tuple(zip(left, rng.sample(range(leaves), k), strict=True))


def join_queries(
    count: int, leaves: int = 5, most: int = 5, skew: float = 0.8, seed: int = 2
) -> list[Query]:
    """Subscriptions as in section 6.6.1; equal ones are one object, so a million fit in memory.

    `most` is the paper's K, `skew` its Zipf parameter. Five leaves and K = 5 give 1,545 distinct
    ones.
    """
    rng = random.Random(seed)
    sizes = _zipf(most, skew)
    known: dict[object, Query] = {}
    queries = []
    for _ in range(count):
        joins = _joins(rng, leaves, sizes, most)
        queries.append(known.setdefault(joins, Query(joins)))
    return queries


def constant_queries(count: int, documents: Documents, seed: int = 3) -> list[Query]:
    """Distinct queries: an item by author X with keyword Y in its title, then one with the same
    link, title or author, within an hour to ten days. X and Y are of one of the items.
    """
    rng = random.Random(seed)
    found: dict[Query, None] = {}
    while len(found) < count:
        item = documents.ids[rng.randrange(len(documents))]
        author = Constant(AUTHOR, "=", documents.strings[item[AUTHOR]])
        word = rng.choice(documents.strings[item[TITLE]].split()[1:])
        leaf = rng.choice((TITLE, LINK, AUTHOR))
        window = rng.choice((1, 6, 24, 48, 240)) * 3_600 * SECOND
        found[Query(((leaf, leaf),), window, (Constant(TITLE, "contains", word), author))] = None
    return list(found)


def window_queries(count: int, leaves: int = 5, most: int = 5, seed: int = 4) -> list[Query]:
    """Distinct queries that share joins and differ in windows, one minute to thirty days."""
    rng = random.Random(seed)
    sizes = _zipf(most, 0.8)
    found: dict[Query, None] = {}
    while len(found) < count:
        window = int(60 * (30 * 24 * 60) ** rng.random()) * SECOND
        found[Query(_joins(rng, leaves, sizes, most), window)] = None
    return list(found)


def wide_queries(count: int, leaves: int = 12, most: int = 4, seed: int = 5) -> list[Query]:
    """Distinct queries that join distinct sets of leaves."""
    rng = random.Random(seed)
    sizes = _zipf(most, 0.8)
    found: dict[Query, None] = {}
    while len(found) < count:
        found[Query(_joins(rng, leaves, sizes, most), UNBOUNDED)] = None
    return list(found)
