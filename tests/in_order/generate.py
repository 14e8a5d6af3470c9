"""Random patterns that are matched in the order of time, and random rows for them: dense ties,
documents with intervals, several nodes, documents that several blocks take, and texts that are no
numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import xscl
from broker.pattern.instances import Row
from broker.pattern.plan import Plan
from broker.query.patterns import PatternQuery, pattern_query

Arrived = dict[int, list[Row]]

_WINDOWS = ("", "", ", 2 s", ", 4 s", ", 3 s AFTER")
_PAIRS = ("{1} > {0}", "{1} <= {0}", "{0} + 1 < {1} * 2", "{0} != {1}", "t = s", "{1} = {0}")
_SYMBOLS, _NUMBERS = "stuw", "prek"
"""Variables of the first block, of the second, and so on."""
_WITHIN = ("", "", " WITHIN 3 s", " WITHIN 6 s")
_BEHIND = (" WHERE ", " WITHIN ")
"""What stands behind PARTITION BY."""


def _asked(random: Random, pairs: tuple[str, ...], *names: str) -> list[str]:
    return [each.format(*names) for each in random.sample(pairs, random.choice((0, 0, 1, 1, 2)))]


def _next(random: Random) -> str:
    braces = " AND ".join(_asked(random, (*_PAIRS, "duration() < 3", "r > 1"), "p", "r"))
    window = random.choice(_WINDOWS)
    where = random.choice(("", "", " WHERE r > p", " WHERE p != 2 AND duration() > 1"))
    return f"S/a[./s->s][./p->p] NEXT {{{braces}{window}}} S/b[./s->t][./p->r]{where}"


def _chain(random: Random, *, one_value: bool = False) -> str:
    """Two links or three; what one asks may name any document before. With `one_value` that is the
    one of all documents."""
    text = "S/a[./s->s][./p->p]"
    for count in range(1, random.choice((3, 3, 4))):
        symbol, number = _SYMBOLS[count], _NUMBERS[count]
        before = [random.randrange(count) for _ in range(3)]
        pairs = (
            *_PAIRS[:4],
            *(f"{symbol} = {_SYMBOLS[place]}" for place in before[:2]),
            f"{number} > {_NUMBERS[before[2]]}",
            *("duration() < 4", "{1} > 1", "{0} + {1} > p"),
        )
        asked = _asked(random, pairs, _NUMBERS[before[0]], number)
        if one_value:
            asked = [f"{symbol} = s", *asked[:1]]
        braces = " AND ".join(asked)
        window = random.choice(_WINDOWS)
        text = f"({text})" if random.random() < 0.3 else text
        text += f" NEXT {{{braces}{window}}} S/{'abcd'[count]}[./s->{symbol}][./p->{number}]"
    return text + random.choice(("", "", " WHERE r > p", " WHERE p != 2 AND duration() > 1"))


def _tied_chain(random: Random) -> str:
    return _chain(random, one_value=True)


def _listed(random: Random) -> str:
    """Two to four blocks in order, tied by their symbols, by their partitions, or not at all."""
    blocks, asked = [], []
    count = random.choice((2, 3, 3, 4))
    for place in range(count):
        filtered = f"[./p > {random.choice('012')}]" if random.random() < 0.2 else ""
        block = f"S/{random.choice('abc')}[./s->{_SYMBOLS[place]}][./p->{_NUMBERS[place]}]"
        window = random.choice(("", *_WINDOWS, ", 3 s AFTER"))[2:]
        blocks.append(f"FOLLOWED BY {{{window}}} {block}{filtered}" if window and place else block)
        one, other = random.sample(range(count), 2)
        asked += _asked(random, _PAIRS[:4], _NUMBERS[one], _NUMBERS[other])[count - 3 :]
    partition = random.random() < 0.4
    if random.random() < (0.2 if partition else 0.7):
        ties = [(random.randrange(place), place) for place in range(1, count)]
        asked += [f"{_SYMBOLS[a]} = {_SYMBOLS[b]}" for a, b in ties]
    asked += random.choice(([], [], ["duration() > 1"], ["s != 'q'"]))
    text = blocks[0] + "".join(
        f" {block}" if block.startswith("FOLLOWED") else f" FOLLOWED BY {block}"
        for block in blocks[1:]
    )
    text += " PARTITION BY ./s" + random.choice(("", ", ./p")) if partition else ""
    text += random.choice(("", "", " USING SKIP TILL ANY MATCH"))
    return text + (f" WHERE {' AND '.join(asked)}" if asked else "")


def _fold(random: Random) -> str:
    filters = " AND ".join(_asked(random, (*_PAIRS, "duration() < 5", "r > 1"), "p", "r"))
    goes = (
        *("r > prev(r, p)", "r < prev(r)", "r <= v + 1", "r > avg(r)", "count(r) < 3"),
        *("r != prev(r, p)", "r >= last(r)", "sum(r) + p >= r", "duration() < 6", "v > r"),
    )
    proceed = " AND ".join(_asked(random, goes))
    step = ", v + r AS v FROM p" if "v" in proceed or random.random() < 0.3 else ""
    where = random.choice(("", "", " WHERE count(r) = 2", " WHERE sum(r) > 3"))
    left, right = "S/a[./s->s][./p->p]", "S/b[./s->t][./p->r]"
    return f"{left} FOLD {{{filters}, {proceed}{step}}} {right}{where}"


def _sharing_fold(random: Random) -> str:
    """Iterations that take the same documents, whenever they began."""
    goes = ("", "r > prev(r, p)", "r < prev(r, p)", "r >= prev(r, p)", "r <= last(r, p)")
    counts = (
        *("", "", " = 1", " = 2", " = 3", " >= 2", " < 3", " > 1 AND count(r) <= 3", " != 2"),
    )
    where = random.choice(counts)
    where = f" WHERE count(r){where}" if where else ""
    tie = random.choice(("", "", "t = s"))
    left, right = "S/a[./s->s][./p->p]", "S/b[./s->t][./p->r]"
    return f"{left} FOLD {{{tie}, {random.choice(goes)}}} {right}{where}"


def _lacking(random: Random) -> str:
    kill = " AND ".join(_asked(random, (*_PAIRS, "r > 1"), "p", "r"))
    left, absent = "S/a[./s->s][./p->p]", "NOT S/b[./s->t][./p->r]"
    window = random.choice(_WINDOWS)
    text = f"{left} FOLLOWED BY {{{kill}{window}}} {absent}"
    if random.random() < 0.6:
        pairs = ("u = s", "e > p", "e <= p", "e != p", "e + p > 3")
        braces = " AND ".join(_asked(random, pairs))
        text += f" FOLLOWED BY {{{braces}{random.choice(('', ', 3 s', ', 5 s'))}}}"
        text += " S/c[./s->u][./p->e]"
    elif not window:
        return text + random.choice((" WITHIN 3 s", " WITHIN 5 s", " WHERE p > 1 WITHIN 2 s"))
    return text


def _runs(random: Random) -> str:
    """A list of blocks and groups that runs take, with conjuncts about what they took."""
    items, single, several = [], [], []
    for n in range(random.choice((1, 2, 2, 3, 3, 4))):
        block = f"S/{'abc'[n % 3]}[./s->s{n}][./p->p{n}]"
        if random.random() < 0.45:
            block = f"({block}){random.choice(('+', '+', '*', '{2}', '{1,2}', '{2,}'))}"
            several.append(n)
        else:
            single.append(n)
        items.append(block)
    asked = []
    for n in random.sample(several, min(len(several), random.choice((0, 1, 1)))):
        other = random.choice(single) if single else n
        asked += random.sample(
            (
                *(f"p{n} > avg(p{n})", f"p{n} >= prev(p{n})", f"p{n} < 2 + first(p{n})"),
                *(f"p{n} != prev(p{n})", f"sum(p{n}) + p{n} < 7", f"count(p{n}) < 3"),
                *(f"p{n} > p{other}", f"s{n} = s{other}", f"p{n} <= max(p{n})", f"p{n} > 1"),
                *(f"first(p{n}) > p{other}", f"sum(p{n}) > p{other}", f"p{n} > last(p{n})"),
                *(f"p{n} + p{other} > min(p{n})", f"(p{n} = 1 OR p{n} > p{other})"),
            ),
            random.choice((1, 1, 2)),
        )
    if len(single) > 1:
        one, other = random.sample(single, 2)
        pairs = (f"p{one} < p{other}", f"s{one} = s{other}", f"p{one} != p{other}", f"p{one} > 1")
        asked += random.sample(pairs, random.choice((0, 1, 1)))
    braces = [random.choice(("", "", "", " {3 s}", " {5 s}")) for _ in items[1:]]
    text = items[0] + "".join(
        f" FOLLOWED BY{window} {item}" for window, item in zip(braces, items[1:], strict=True)
    )
    partition = random.choice(("", " PARTITION BY ./s", " PARTITION BY ./s, ./p"))
    kinds = ["SKIP TILL NEXT MATCH", "STRICT CONTIGUITY", *["PARTITION CONTIGUITY"] * 2]
    using = random.choice(kinds if partition else kinds[:2])
    where = f" WHERE {' AND '.join(asked)}" if asked else ""
    return f"{text}{partition} USING {using}{where}"


def _bounded_group(random: Random) -> str:
    """Runs of a group between two blocks."""
    return _group(random, ("{1}", "{2}", "{2}", "{3}", "{1,2}", "{2,3}", "{0,2}"))


def _group(random: Random, quantifiers: Sequence[str] = ("+", "+", "*", "{2,}")) -> str:
    """A longest group between two blocks."""
    group = random.choice(quantifiers)
    text = f"S/a[./s->s][./p->p] FOLLOWED BY{random.choice(('', '', ' {3 s}'))}"
    text += f" (S/b[./s->t][./p->r]){group} FOLLOWED BY{random.choice(('', '', ' {5 s}'))}"
    text += " S/c[./s->u][./p->e]"
    ties = random.choice(("t = s AND u = s", "u = s", "t = u AND t = s", "t = u", "", "", "p = e"))
    asked = random.sample(
        (
            *("r > avg(r)", "r >= prev(r)", "r > p", "r <= e", "sum(r) + r < 7", "count(r) < 3"),
            *("first(r) > p", "first(r) < e", "r > 1", "e > p", "e != p", "last(r) < e"),
            *("count(r) > 1", "avg(r) >= e", "duration() < 4", "(r = 1 OR r > p)", "r != 2"),
        ),
        random.choice((0, 1, 1, 2)),
    )
    every = [*([ties] if ties else []), *asked]
    return text + (f" WHERE {' AND '.join(every)}" if every else "")


def _last_group(random: Random) -> str:
    """A longest group at the end of a list."""
    window = random.choice(("", " {2 s}", " {4 s}"))
    text = f"S/a[./s->s][./p->p] FOLLOWED BY{window} (S/b[./s->t][./p->r])"
    text += random.choice(("+", "*", "{2,}"))
    asked = random.sample(
        (
            *("t = s", "t = s", "r > avg(r)", "r >= prev(r)", "r > p", "sum(r) + r < 7", "r != 2"),
            *("first(r) > p", "count(r) > 1", "avg(r) >= p", "duration() > 3", "(r = 1 OR r > p)"),
        ),
        random.choice((0, 1, 2)),
    )
    return text + (f" WHERE {' AND '.join(asked)}" if asked else "")


MAKERS = {
    "next": _next,
    "chain": _chain,
    "chain of one value": _tied_chain,
    "list": _listed,
    "fold": _fold,
    "sharing fold": _sharing_fold,
    "lacking": _lacking,
    "runs": _runs,
    "group": _group,
    "bounded group": _bounded_group,
    "last group": _last_group,
}


_PARTITIONED = {
    *(_next, _chain, _tied_chain, _fold, _sharing_fold, _lacking),
    *(_group, _bounded_group, _last_group),
}
"""Those that have no PARTITION BY of their own."""


def _put(text: str, clause: str) -> str:
    """A pattern with a clause before WHERE and WITHIN."""
    at = min([text.find(each) for each in _BEHIND if each in text], default=len(text))
    return text[:at] + clause + text[at:]


def _several(random: Random, text: str) -> str:
    """The text of a pattern that looks at several of its matches."""
    if random.random() < 0.75:
        choosing = random.choice(("NON OVERLAPPING", "NON OVERLAPPING", "ONE PER START"))
        text = _put(text, f"{'' if ' USING ' in text else ' USING'} {choosing}")
        if random.random() < 0.7:
            return text
    name = random.choice("sspp") + random.choice(("", "", "0", "1"))
    having = random.choice(("", " HAVING count({0}) > 1", " HAVING {0} = max({0})"))
    return f"{text} GROUP BY {name} OVER {random.choice('01246')} s{having.format(name)}"


def pattern(
    random: Random, make: Callable[[Random], str], *, several: bool = False
) -> tuple[str, PatternQuery]:
    """The text of a pattern that is matched in the order of time, and the pattern; one that looks
    at `several` of its matches, if that is wanted."""
    while True:
        text = make(random) + random.choice(_WITHIN)
        if text.count("WITHIN") > 1:
            continue
        if make in _PARTITIONED and random.random() < 0.5:
            partition = f" PARTITION BY ./s{random.choice(('', ', ./p'))}"
            text = _put(text, partition)
        if several:
            text = _several(random, text)
        select = random.choice(("", "", "SELECT p FROM ")) if "->p]" in text else ""
        try:
            (query,) = xscl.check([xscl.parse(select + text)]).queries
        except xscl.XsclError:
            continue
        found = pattern_query(query)
        if found.ordered is not None:
            return text, found


def rows(random: Random, plan: Plan, count: int) -> Iterator[tuple[int, Row]]:
    """Rows with the places of their blocks, in order of arrival; each is late by up to two
    seconds."""
    points = random.random() < 0.6
    several = random.choice((0.0, 0.15, 0.5))  # of the rows are in several partitions
    symbols = random.choice(("p", "pq", "pqr"))
    second = 1_000_000
    for number in range(count):
        end = (number // 3 - random.choice((0, 0, 1, 2)) + 10) * second
        start = end if points else end - random.choice((0, 0, 1, 2)) * second
        blocks = [n for n in range(len(plan.taps)) if n not in plan.contiguous]
        places = random.sample(blocks, min(len(blocks), random.choice((1, 1, 1, 2))))
        ones = [(random.choice(symbols), *"0"[: len(plan.query.partition) - 1])]
        while random.random() < several:
            ones.append(
                (random.choice(symbols), *random.choice("01")[: len(plan.query.partition) - 1])
            )
        tuples = frozenset(ones) if plan.query.partition else None
        id = random.choice("abc") + str(number)
        again = number >= 12 and random.random() < 0.1
        key = number - 12 if again else number  # another version of an earlier document
        for place in places:
            for node in range(random.choice((1, 1, 1, 2))):
                texts = {
                    path: [random.choice("pq") if path[0] in _SYMBOLS else random.choice("0123-4x")]
                    for path in plan.taps[place].paths
                }
                nodes = dict.fromkeys(texts, node + 2)
                yield place, Row(number, key, number, start, end, id, 1, nodes, texts, tuples)
        for common in plan.contiguous:
            if random.random() < 0.9:
                yield common, Row(number, key, number, start, end, id, 1, {}, {}, tuples)
