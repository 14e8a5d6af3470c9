"""The workloads of Cayuga's experiments: templates of subscriptions, events, and matches by hand.

Events have attributes a0 to a9, whose values are drawn from 10,000, and a number k; each
subscription asks for a constant of one attribute or of two, drawn the same way. Feed items have a
website, a channel and a popularity; stock quotes a name and a price. One a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

ATTRIBUTES = 10
VALUES = 10_000
WINDOW = 10_000
START = 1_790_000_000

Event = tuple[int, tuple[int, ...], int]
"""Time in seconds, the values of the attributes, k."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The attribute of a subscription and its constants: of the first block and of the second."""

    attribute: int
    first: int
    second: int


_LEFT = "S/e[./a{0} = '{1}'][./k->k]"
_RIGHT = "S/e[./a{0} = '{2}'][./k->l]"
TEMPLATES = {
    "Filter": "S/e[./a{0} = '{1}'][./k > 50]",
    "NonDeterministic": f"{_LEFT} NEXT {{{{l > k, {WINDOW} s}}}} {_RIGHT}",
    "Fold": f"{_LEFT} FOLD {{{{, l > prev(l, k)}}}} {_RIGHT} WHERE count(l) = 2 WITHIN {WINDOW} s",
}


def events(count: int) -> list[Event]:
    random = Random(3)
    return [
        (
            START + n,
            tuple([random.randrange(VALUES) for _ in range(ATTRIBUTES)]),
            random.randrange(100),
        )
        for n in range(count)
    ]


def subscriptions(template: str, count: int) -> list[Asked]:
    """Of FOLD both constants are the same one."""
    random = Random(4)
    found = []
    for _ in range(count):
        first, second = random.randrange(VALUES), random.randrange(VALUES)
        attribute = random.randrange(ATTRIBUTES)
        found.append(Asked(attribute, first, first if template == "Fold" else second))
    return found


Index = dict[tuple[int, int], list[int]]
"""Subscriptions by attribute and constant: Cayuga's index of predicates."""


def indexes(asked: Sequence[Asked]) -> tuple[Index, Index]:
    """By the constants of the first block, and by those of the second."""
    starts, follows = Index(), Index()
    for number, each in enumerate(asked):
        starts.setdefault((each.attribute, each.first), []).append(number)
        follows.setdefault((each.attribute, each.second), []).append(number)
    return starts, follows


def by_hand(template: str, asked: Sequence[Asked], every: Sequence[Event]) -> int:
    """The number of matches, one event at a time, with what waits for each subscription."""
    starts, follows = indexes(asked)
    waiting: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    found = 0
    for at, values, k in every:
        taking = [n for pair in enumerate(values) for n in starts.get(pair, ())]
        if template == "Filter":
            found += len(taking) if k > 50 else 0
            continue
        for number in [n for pair in enumerate(values) for n in follows.get(pair, ())]:
            own = waiting.get(number)
            if not own:
                continue
            live = [each for each in own if each[0] + WINDOW >= at]
            if template == "Fold":
                live = [(start, k, steps + 1) for start, last, steps in live if k > last]
                found += sum(steps == 2 for _, _, steps in live)
                waiting[number] = live
            else:
                found += sum(last < k for _, last, _ in live)
                waiting[number] = [each for each in live if each[1] >= k]
        for number in taking:
            waiting[number].append((at, k, 0))
    return found


def xml(event: Event) -> str:
    _, values, k = event
    inner = "".join(f"<a{n}>{value}</a{n}>" for n, value in enumerate(values))
    return f"<e>{inner}<k>{k}</k></e>"


# -- feeds ---------------------------------------------------------------------------------------

Item = tuple[int, int, int, int]
"""Time in seconds, website, channel, popularity."""

_POPULAR = "S/item[./website = 'W{0}'][./popularity > {1}]"
_OF = "S/item[./website = 'W{0}'][./channel->c{2}][./popularity->p{2}]"
FEEDS = {
    "Stateless": _POPULAR,
    "Concatenation": f"{_POPULAR} NEXT {{{{}}}} {_POPULAR} NEXT {{{{}}}} {_POPULAR} WITHIN 100 s",
    "Parameterization": (
        f"{_OF.replace('{2}', '0')} NEXT {{{{c1 = c0 AND p1 > p0}}}} {_OF.replace('{2}', '1')}"
        f" NEXT {{{{c2 = c1 AND p2 > p1}}}} {_OF.replace('{2}', '2')} WITHIN 100 s"
    ),
    "Iteration": (
        f"{_OF.replace('{2}', '0')} FOLD {{{{c1 = c0, p1 > prev(p1, p0)}}}}"
        f" {_OF.replace('{2}', '1')} WITHIN 100 s"
    ),
}
WEBSITES, CHANNELS = 50, 4


def items(count: int) -> list[Item]:
    random = Random(5)
    return [
        (START + n, random.randrange(WEBSITES), random.randrange(CHANNELS), random.randrange(100))
        for n in range(count)
    ]


def feed_queries(count: int) -> list[tuple[int, int]]:
    """A website and a popularity for each; every hundredth asks for a website that there is."""
    return [(n // 100 % WEBSITES if n % 100 == 0 else WEBSITES + n, 50) for n in range(count)]


def feed_matches(template: str, queries: Sequence[tuple[int, int]], every: Sequence[Item]) -> int:
    """The number of matches: of each document what follows it is looked for anew."""
    of: dict[int, list[Item]] = defaultdict(list)
    for item in every:
        of[item[1]].append(item)
    return sum(
        sum(_after(template, of[site][n:], least) for n in range(len(of[site])))
        for site, least in queries
        if site in of
    )


def _after(template: str, own: list[Item], least: int) -> int:
    """The matches that begin with the first of these, of one website."""
    begin = own[0]
    last = begin[0] + 100
    if template in ("Stateless", "Concatenation"):
        if begin[3] <= least:
            return 0
        if template == "Stateless":
            return 1
        popular = [item for item in own if item[3] > least][:3]
        return int(len(popular) == 3 and popular[2][0] <= last)
    found = steps = 0
    now = begin
    for item in own[1:]:
        if item[0] > last or item[2] != begin[2]:
            continue
        if template == "Iteration":
            if item[3] <= now[3]:
                break
            now, found = item, found + 1
        elif item[3] > now[3]:
            now, steps = item, steps + 1
            if steps == 2:
                return 1
    return found


def item_xml(item: Item) -> str:
    _, site, channel, popularity = item
    return (
        f"<item><website>W{site}</website><channel>{channel}</channel>"
        f"<popularity>{popularity}</popularity></item>"
    )


# -- double tops ---------------------------------------------------------------------------------

DOUBLE_TOP = """
    S/q[./s = 'S{0}'][./p->a]
    FOLD {{, b > prev(b, a)}} S/q[./s = 'S{0}'][./p->b]
    FOLD {{, c < prev(c, last(b))}} S/q[./s = 'S{0}'][./p->c]
    FOLD {{, d > prev(d, last(c))}} S/q[./s = 'S{0}'][./p->d]
    FOLD {{, e < prev(e, last(d))}} S/q[./s = 'S{0}'][./p->e]
    WHERE last(b) >= 1.2 * a AND last(c) >= 0.9 * a AND last(c) <= 1.1 * a
        AND last(d) >= 0.9 * last(b) AND last(d) <= 1.1 * last(b) AND last(e) < a
    WITHIN 1 h
"""


def double_tops(own: Sequence[tuple[int, int]]) -> int:
    """The number of matches of the quotes of one symbol: times and prices."""
    found = 0
    for i, (begin, a) in enumerate(own):
        for j in _run(own, i, 1, begin):
            b = own[j][1]
            if not b >= 1.2 * a:
                continue
            for k in _run(own, j, -1, begin):
                if not 0.9 * a <= own[k][1] <= 1.1 * a:
                    continue
                for m in _run(own, k, 1, begin):
                    if 0.9 * b <= own[m][1] <= 1.1 * b:
                        found += sum(own[n][1] < a for n in _run(own, m, -1, begin))
    return found


def _run(own: Sequence[tuple[int, int]], at: int, way: int, begin: int) -> Iterator[int]:
    """What goes on up (1) or down (-1) from a place, within an hour of the beginning."""
    for n in range(at + 1, len(own)):
        if (own[n][1] - own[n - 1][1]) * way <= 0 or own[n][0] > begin + 3600:
            return
        yield n
