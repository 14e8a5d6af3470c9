"""Makes bombs: random queries over the model of documents that are too much at a document of theirs.

A document of the model is `<r7><k>…</k><b>…</b></r7>`: `k` joins it with others, and in `b` stands
what is too much, as very many nodes, as deep nesting or as long texts. A bomb takes a block, or
several with operators between them, conditions and a result from the grammar, and documents that fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Bomb:
    """A query, and what stands in `b` of each document that it is too much at; `name` is that of
    the documents' root elements."""

    kind: str
    id: str
    name: str
    query: str
    inside: tuple[str, ...]


def bomb(r: Random, number: int) -> Bomb:
    """The bomb of this number: all kinds in turn, their sizes and forms at random."""
    kinds = [*KINDS]
    kind = kinds[number % len(kinds)]
    id = f"bomb-{number}-{kind}"
    query, inside = KINDS[kind](r, "B")
    query = query.replace("B//r", f"S//r{number}").replace("B//", f"S//r{number}//")
    return Bomb(kind, id, f"r{number}", f"{id}: {query};", tuple(inside))


def _nodes(r: Random, low: int, high: int, text: str = "1") -> str:
    return f"<n>{text}</n>" * r.randint(low, high)


def _path(r: Random) -> str:
    """A path from the block's root to the nodes in `b`."""
    return r.choice([".//n", "./b/n", "./b//n", "./*/n", ".//b/n", "./descendant::n"])


def _times(r: Random, text: str, count: int) -> list[str]:
    return [text] * r.randint(count, count + 1)


# -- one document ------------------------------------------------------------------------------


def _product(r: Random, stream: str) -> tuple[str, list[str]]:
    names = "xyzw"[: r.randint(2, 4)]
    block = "".join(f"[{_path(r)}->{name}]" for name in names)
    return f"SELECT {', '.join(names)} FROM {stream}//r{block}", _times(r, _nodes(r, 110, 300), 1)


def _inner(r: Random, stream: str) -> tuple[str, list[str]]:
    nested = r.randint(60, 150)
    leaves = r.randint(2_000, 4_000)
    inside = "<a>" * nested + "<n/>" * leaves + "</a>" * nested
    return f"SELECT x, y FROM {stream}//a->x[.//n->y]", _times(r, inside, 1)


def _long_text(r: Random, stream: str) -> tuple[str, list[str]]:
    text = "x" * r.randint(500_000, 1_500_000)
    many = r.randint(300, 2_000)
    if r.random() < 0.5:
        made = f"concat({', '.join(['x'] * many)})"
    else:
        made = f"<all>{''.join(['{x}'] * many)}</all>"
    return f"SELECT {made} FROM {stream}//r[./b->x]", _times(r, text, 1)


def _many_texts(r: Random, stream: str) -> tuple[str, list[str]]:
    text = "x" * r.randint(20_000, 40_000)
    inside = _nodes(r, 4_000, 6_000) + f"<t>{text}</t>"
    return f"SELECT concat(x, t) FROM {stream}//r[.//n->x][.//t->t]", _times(r, inside, 1)


def _axis(r: Random, stream: str) -> tuple[str, list[str]]:
    axis = r.choice(
        ["preceding::n", "following::n", "preceding-sibling::n", "following-sibling::*"]
    )
    what = r.choice(["count({}) > 999999", "sum({}) = 0.5", "count({}[. = 2]) > 1"])
    filter = what.format(axis)
    return f"SELECT k FROM {stream}//r[./k->k][.//n[{filter}]]", _times(
        r, _nodes(r, 20_000, 30_000), 1
    )


def _position(r: Random, stream: str) -> tuple[str, list[str]]:
    filter = r.choice(["following::n[last()] = 2", "preceding::n[position() = last()] = 2"])
    return f"SELECT k FROM {stream}//r[./k->k][.//n[{filter}]]", _times(
        r, _nodes(r, 20_000, 30_000), 1
    )


# -- several documents -------------------------------------------------------------------------


def _residual(r: Random, stream: str) -> tuple[str, list[str]]:
    names = ["x", "y", "z", "w"][: r.randint(3, 4)]
    block = "".join(f"[.//n->{name}]" for name in names)
    condition = r.choice([" + ".join(names) + " = 0.5", " * ".join(names) + " < 0"])
    operator = r.choice(["JOIN", "FOLLOWED BY"])
    return (
        f"SELECT k FROM {stream}//r[./k->k]{block} {operator} {{{condition}, 1 day}}"
        f" {stream}//r[./k->l]",
        _times(r, _nodes(r, 700, 900), 2),
    )


def _pairs(r: Random, stream: str) -> tuple[str, list[str]]:
    operator = r.choice(["JOIN", "FOLLOWED BY"])
    path = _path(r)
    return (
        f"SELECT x, y FROM {stream}//r[{path}->x] {operator} {{x = y, 1 day}} {stream}//r[{path}->y]",
        _times(r, _nodes(r, 150, 400), 3),
    )


def _chain(r: Random, stream: str) -> tuple[str, list[str]]:
    blocks = r.randint(4, 8)
    operator = r.choice([" FOLLOWED BY {%s, 1 day} ", " JOIN {%s, 1 day} "])
    text = f"{stream}//r[./b->x0]"
    for n in range(1, blocks):
        text += operator % f"x0 = x{n}" + f"{stream}//r[./b->x{n}]"
    return f"SELECT x0 FROM {text}", _times(r, "same", {4: 45, 5: 26, 6: 21, 7: 19, 8: 18}[blocks])


def _cross(r: Random, stream: str) -> tuple[str, list[str]]:
    blocks = r.randint(3, 4)
    text = f" {r.choice(['JOIN', 'FOLLOWED BY'])} {{1 day}} ".join([f"{stream}//r->v%d"] * blocks)
    return f"SELECT v0 FROM {text % (*range(blocks),)}", _times(r, "", 150 if blocks == 3 else 45)


def _hot(r: Random, stream: str) -> tuple[str, list[str]]:
    return (
        f"SELECT x FROM {stream}//r[.//n->x][./k->k] JOIN {{x = y AND k != l, 1 day}}"
        f" {stream}//r[.//n->y][./k->l]",
        _times(r, _nodes(r, 120, 300), 4),
    )


# -- event patterns ----------------------------------------------------------------------------


def _any_group(r: Random, stream: str) -> tuple[str, list[str]]:
    group = r.choice(["+", "{2,}", "*"])
    return (
        f"{stream}//r->v0 FOLLOWED BY ({stream}//r->v){group} USING SKIP TILL ANY MATCH WITHIN 1 day",
        _times(r, "", r.randint(24, 40)),
    )


def _pattern_product(r: Random, stream: str) -> tuple[str, list[str]]:
    block = f"{stream}//r[.//n->x][.//n->y]"
    return (
        f"SELECT x, y FROM {block} FOLLOWED BY NOT {stream}//never WITHIN 1 min",
        _times(r, _nodes(r, 110, 200), 1),
    )


def _pattern_chain(r: Random, stream: str) -> tuple[str, list[str]]:
    blocks = r.randint(4, 6)
    text = " FOLLOWED BY ".join(f"{stream}//r->v{n}" for n in range(blocks))
    size = {4: 140, 5: 70, 6: 45}[blocks]
    return f"{text} FOLLOWED BY NOT {stream}//never WITHIN 1 day", _times(r, "", size)


KINDS: dict[str, Callable[[Random, str], tuple[str, list[str]]]] = {
    "product": _product,
    "axis": _axis,
    "chain": _chain,
    "long-text": _long_text,
    "residual": _residual,
    "any-group": _any_group,
    "inner": _inner,
    "pairs": _pairs,
    "cross": _cross,
    "many-texts": _many_texts,
    "pattern-product": _pattern_product,
    "position": _position,
    "hot": _hot,
    "pattern-chain": _pattern_chain,
}
"""By kind, what makes the text of a query and the insides of its documents."""
