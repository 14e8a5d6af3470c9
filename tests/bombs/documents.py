"""Bombs of one document: products of its nodes, long texts, filters, and the document itself."""

from __future__ import annotations

from random import Random

from tests.bombs.made import Made, nodes, path, times

_BIG = 24_000
"""Nodes of which some axes reach all, from each."""


def product(r: Random) -> Made:
    names = "xyzw"[: r.randint(2, 4)]
    block = "".join(f"[{path(r)}->{name}]" for name in names)
    return Made(f"SELECT {', '.join(names)} FROM B//r{block}", times(r, nodes(r, 40, 120)))


def attributes(r: Random) -> Made:
    count = r.randint(40, 120)
    inside = "".join([f'<n a="{n}" c="{n % 7}"/>' for n in range(count)])
    return Made("SELECT x, y FROM B//r[./b/n/@a->x][.//n/@c->y]", times(r, inside))


def namespaces(r: Random) -> Made:
    inside = f'<p:e xmlns:p="urn:p">{"<p:n/>" * r.randint(40, 120)}</p:e>'
    query = 'LET NAMESPACE q = "urn:p"; ID: SELECT x, y FROM B//r[.//q:n->x][.//q:*->y];'
    return Made(query, times(r, inside))


def texts(r: Random) -> Made:
    what = "text()"
    inside = "".join([f"<n/>{n}" for n in range(r.randint(40, 120))])
    return Made(f"SELECT x, y FROM B//r[./b/{what}->x][./b/{what}->y]", times(r, inside))


def wide(r: Random) -> Made:
    inside = "".join([f"<n{n % 5}>{n}</n{n % 5}>" for n in range(r.randint(1_000, 2_000))])
    return Made("SELECT x, y FROM B//r[./b/*->x][./b/*->y]", times(r, inside))


def inner(r: Random) -> Made:
    nested, leaves = r.randint(60, 150), r.randint(300, 600)
    inside = "<a>" * nested + "<n/>" * leaves + "</a>" * nested
    return Made("SELECT x, y FROM B//a->x[.//n->y]", times(r, inside))


def nested(r: Random) -> Made:
    depth = r.randint(60, 120)
    inside = "<a>" * depth + "</a>" * depth
    return Made("SELECT x, y, z FROM B//a->x[.//a->y[.//a->z]]", times(r, inside))


# -- long texts ----------------------------------------------------------------------------------


def long_concat(r: Random) -> Made:
    text, many = "x" * r.randint(500_000, 1_500_000), r.randint(300, 2_000)
    return Made(f"SELECT concat({', '.join(['x'] * many)}) FROM B//r[./b->x]", [text])


def long_element(r: Random) -> Made:
    text, many = "x" * r.randint(500_000, 1_500_000), r.randint(300, 2_000)
    return Made(f"SELECT <all>{'{x}' * many}</all> FROM B//r[./b->x]", [text])


def long_attribute(r: Random) -> Made:
    text, many = "x" * r.randint(500_000, 1_500_000), r.randint(300, 1_000)
    return Made(f'SELECT <all><e a="{"{x}" * many}"/></all> FROM B//r[./b->x]', [text])


def long_functions(r: Random) -> Made:
    text, many = "A  b" * r.randint(200_000, 300_000), r.randint(150, 300)
    made = r.choice(["normalize-space(x)", "lower-case(x)", "translate(x, 'b', 'd')", "words(x)"])
    parts = ", ".join([f"{made} AS v{n}" for n in range(many)])
    return Made(f"SELECT {parts} FROM B//r[./b->x]", [text])


def many_texts(r: Random) -> Made:
    inside = nodes(r, 220, 290) + f"<t>{'x' * r.randint(320_000, 400_000)}</t>"
    return Made("SELECT concat(x, t) FROM B//r[.//n->x][.//t->t]", [inside])


def many_elements(r: Random) -> Made:
    inside = nodes(r, 220, 290) + f"<t>{'x' * r.randint(320_000, 400_000)}</t>"
    return Made("SELECT <e>{x}<f>{t}</f></e> FROM B//r[.//n->x][.//t->t]", [inside])


def many_pieces(r: Random) -> Made:
    inside = nodes(r, 220, 290) + f"<t>{'x,' * r.randint(60_000, 90_000)}</t>"
    return Made("SELECT x, tokenize(t, ',') AS p FROM B//r[.//n->x][.//t->t]", [inside])


# -- filters -------------------------------------------------------------------------------------


def _filter(r: Random, *filters: str) -> Made:
    where = f"SELECT k FROM B//r[./k->k][.//n[{r.choice(filters)}]]"
    return Made(where, [nodes(r, _BIG, _BIG + 6_000)])


def axis(r: Random) -> Made:
    return _filter(r, "count(preceding::n) > 999999", "sum(following::n) = 0.5")


def siblings(r: Random) -> Made:
    way = r.choice(["preceding-sibling::n", "following-sibling::*"])
    return _filter(r, f"count({way}[. = 2]) > 1", f"count({way}) > 999999")


def position(r: Random) -> Made:
    return _filter(r, "following::n[last()] = 2", "preceding::n[position() = last()] = 2")


def union(r: Random) -> Made:
    return _filter(r, "count(preceding::n | following::n) > 999999")


def whole(r: Random) -> Made:
    what = r.choice(["string-length(/) < position()", "contains(/, concat(., 'y'))"])
    made = f"SELECT k FROM B//r[./k->k][.//n[{what}]]"
    return Made(made, ["<n>x</n>" * _BIG + f"<t>{'x' * 400_000}</t>"])


def matching(r: Random) -> Made:
    what = r.choice(["matches(/, '(x+x+)+y')", "starts-with(translate(/, 'x', 'z'), 'y')"])
    made = f"SELECT k FROM B//r[./k->k][.//n[{what}]]"
    return Made(made, ["<n>x</n>" * _BIG + f"<t>{'x' * 400_000}</t>"])


# -- the document itself ---------------------------------------------------------------------------


def entities(r: Random) -> Made:
    """Entities of entities: a document that says much more than it has bytes."""
    levels = "".join([f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(r.randint(7, 9))])
    prolog = f'<!DOCTYPE r [<!ENTITY e0 "xxxxxxxxxx">{levels}]>'
    return Made("SELECT x FROM B//r[./b->x]", ["&e7;"], prolog=prolog, refused=True)


def deep(r: Random) -> Made:
    """Deeper than documents may be."""
    depth = r.randint(320_000, 400_000)
    return Made("SELECT x FROM B//r//a->x", ["<a>" * depth + "</a>" * depth], refused=True)


KINDS = [
    *(product, attributes, namespaces, texts, wide, inner, nested),
    *(long_concat, long_element, long_attribute, long_functions),
    *(many_texts, many_elements, many_pieces),
    *(axis, siblings, position, union, whole, matching, entities, deep),
]
