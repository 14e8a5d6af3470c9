"""Bombs of event patterns: too many choices, too many that wait, or conditions that try too much."""

from __future__ import annotations

from random import Random

from tests.bombs.made import Made, nodes, times

_LATE = "FOLLOWED BY NOT B//never WITHIN 1 day"
_TRIES = "x//n + y//n + x//n = 0.5"


def any_group(r: Random) -> Made:
    group = r.choice(["+", "{2,}", "*"])
    query = f"B//r->v0 FOLLOWED BY (B//r->v){group} USING SKIP TILL ANY MATCH WITHIN 1 day"
    return Made(query, times(r, "", r.randint(20, 24)))


def any_groups(r: Random) -> Made:
    query = "(B//r->u)+ FOLLOWED BY (B//r->v)+ USING SKIP TILL ANY MATCH WITHIN 1 day"
    return Made(query, times(r, "", r.randint(20, 24)))


def composite_group(r: Random) -> Made:
    group = "(B//r->u FOLLOWED BY B//r->v){1,}"
    query = f"B//r->v0 FOLLOWED BY {group} USING SKIP TILL ANY MATCH WITHIN 1 day"
    return Made(query, times(r, "", r.randint(20, 24)))


def any_group_and_not(r: Random) -> Made:
    query = f"B//r->v0 FOLLOWED BY (B//r->v)+ {_LATE.replace(' WITHIN', ' USING SKIP TILL ANY MATCH WITHIN')}"
    return Made(query, times(r, "", r.randint(20, 24)))


def product(r: Random) -> Made:
    query = "SELECT x, y FROM B//r[.//n->x][.//n->y] FOLLOWED BY NOT B//never WITHIN 1 min"
    return Made(query, times(r, nodes(r, 60, 90)))


def chain(r: Random) -> Made:
    blocks = r.randint(4, 6)
    text = " FOLLOWED BY ".join([f"B//r->v{n}" for n in range(blocks)])
    return Made(f"{text} {_LATE}", times(r, "", {4: 26, 5: 22, 6: 20}[blocks]))


def unordered(r: Random) -> Made:
    blocks = r.randint(4, 5)
    text = " JOIN ".join([f"B//r->v{n}" for n in range(blocks)])
    return Made(f"{text} JOIN NOT B//never WITHIN 1 day", times(r, "", {4: 12, 5: 10}[blocks]))


def ors(r: Random) -> Made:
    lists = r.randint(3, 4)
    text = " FOLLOWED BY ".join([f"(B//r->a{n} OR B//r->b{n})" for n in range(lists)])
    return Made(f"{text} {_LATE}", times(r, "", {3: 18, 4: 14}[lists]))


def not_list(r: Random) -> Made:
    inner = " FOLLOWED BY ".join([f"B//r->u{n}" for n in range(6)])
    query = f"B//r->a FOLLOWED BY NOT ({inner}) FOLLOWED BY B//r->z WITHIN 1 day WAIT 0 s"
    return Made(query, times(r, "", 22))


def not_nodes(r: Random) -> Made:
    query = f"B//r->x FOLLOWED BY NOT B//r->y WHERE {_TRIES} WITHIN 2 h WAIT 0 s"
    return Made(query, times(r, nodes(r, 60, 90), 3))


def next_nodes(r: Random) -> Made:
    return Made(f"B//r->x NEXT {{{_TRIES}}} B//r->y WITHIN 1 day", times(r, nodes(r, 60, 90), 3))


def group_nodes(r: Random) -> Made:
    query = f"B//r->x FOLLOWED BY {{{_TRIES}}} (B//r->y)+ WITHIN 2 h WAIT 0 s"
    return Made(query, times(r, nodes(r, 60, 90), 3))


def fold_nodes(r: Random) -> Made:
    query = "B//r[.//n->p] FOLD {p + q//n + q//n + q//n = 0.5, } B//r->q WITHIN 1 day"
    return Made(query, times(r, nodes(r, 60, 90), 3))


def runs(r: Random) -> Made:
    query = "(B//r->u)+ FOLLOWED BY (B//r->v)+ FOLLOWED BY (B//r->w)+ USING SKIP TILL NEXT MATCH"
    return Made(f"{query} WITHIN 1 day WAIT 0 s", times(r, "", 30))


def partitions(r: Random) -> Made:
    inside = "".join([f"<n>{n}</n>" for n in range(r.randint(40, 120))])
    query = "B//r->x FOLLOWED BY B//r->y PARTITION BY .//n, ./b/n WITHIN 1 day"
    return Made(query, times(r, inside))


def rows_and_partitions(r: Random) -> Made:
    inside = "".join([f"<n>{n}</n>" for n in range(r.randint(600, 900))])
    query = "SELECT x FROM B//r[.//n->x][./k->k] NEXT {k = l} B//r[./k->l] PARTITION BY .//n WITHIN 1 day"
    return Made(query, times(r, inside))


def over_texts(r: Random) -> Made:
    text, many = "x" * r.randint(300_000, 500_000), r.randint(200, 400)
    shown = ", ".join(["first(v)"] * many)
    query = f"SELECT concat({shown}) AS t FROM B//r[./b->v] WAIT 0 s OVER 1 day"
    return Made(query, [text])


def over_nodes(r: Random) -> Made:
    query = "SELECT k FROM B//r->v[./k->k] WAIT 0 s OVER 1 day HAVING v//n + v//n + v//n = 0.5"
    return Made(query, times(r, nodes(r, 60, 90), 2))


def published(r: Random) -> Made:
    """An event pattern over the stream of another query's results."""
    query = (
        "ID-0: SELECT <e>{x}</e> FROM B//r[.//n->x] PUBLISH T0;"
        " ID: T0//e->a JOIN T0//e->b JOIN NOT T0//never WITHIN 1 day;"
    )
    return Made(query, times(r, nodes(r, 90, 120)))


KINDS = [
    *(any_group, any_groups, composite_group, any_group_and_not, product, chain, unordered, ors),
    *(not_list, not_nodes, next_nodes, group_nodes, fold_nodes, runs),
    *(partitions, rows_and_partitions, over_texts, over_nodes, published),
]
