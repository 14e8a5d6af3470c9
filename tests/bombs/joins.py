"""Bombs of several documents: joins that find too much, or look for it for too long; and streams
of results."""

from __future__ import annotations

from random import Random

from tests.bombs.made import Made, nodes, path, times


def _way(r: Random) -> str:
    return r.choice(["JOIN", "FOLLOWED BY"])


def pairs(r: Random) -> Made:
    a, b = path(r), path(r)
    query = f"SELECT x, y FROM B//r[{a}->x] {_way(r)} {{x = y, 1 day}} B//r[{b}->y]"
    return Made(query, times(r, nodes(r, 40, 90), 3))


def hot(r: Random) -> Made:
    query = (
        "SELECT x FROM B//r[.//n->x][./k->k] JOIN {x = y AND k != l, 1 day} B//r[.//n->y][./k->l]"
    )
    return Made(query, times(r, nodes(r, 40, 90), 4))


def chain(r: Random) -> Made:
    blocks = r.randint(4, 8)
    text = "B//r[./b->x0]"
    way = _way(r)
    for n in range(1, blocks):
        text += f" {way} {{x0 = x{n}, 1 day}} B//r[./b->x{n}]"
    size = {4: 18, 5: 15, 6: 15, 7: 15, 8: 15}[blocks]
    return Made(f"SELECT x0 FROM {text}", times(r, "same", size))


def star(r: Random) -> Made:
    others = r.randint(3, 4)
    text = "B//r[.//n->x0]"
    for n in range(1, others + 1):
        text += f" JOIN {{x0 = x{n}, 1 day}} B//r[.//n->x{n}]"
    return Made(f"SELECT x0 FROM {text}", times(r, nodes(r, 5, 9), 5))


def triangle(r: Random) -> Made:
    query = (
        "SELECT x FROM B//r[.//n->x] JOIN {x = y, 1 day} B//r[.//n->y]"
        " JOIN {y = z AND z = x, 1 day} B//r[.//n->z]"
    )
    return Made(query, times(r, nodes(r, 15, 25), 3))


def cross(r: Random) -> Made:
    blocks = r.randint(3, 4)
    text = f" {_way(r)} {{1 day}} ".join([f"B//r->v{n}" for n in range(blocks)])
    return Made(f"SELECT v0 FROM {text}", times(r, "", 30 if blocks == 3 else 18))


def or_join(r: Random) -> Made:
    query = "SELECT x FROM B//r[.//n->x] JOIN {x = y OR x != y, 1 day} B//r[.//n->y]"
    return Made(query, times(r, nodes(r, 40, 90), 3))


def unequal(r: Random) -> Made:
    query = f"SELECT x FROM B//r[.//n->x] {_way(r)} {{x <= y, 1 day}} B//r[.//n->y]"
    return Made(query, times(r, nodes(r, 40, 90), 3))


def functions(r: Random) -> Made:
    compare = r.choice(["starts-with(x, y)", "contains(x, y)", "concat(x, y) = '11'"])
    query = f"SELECT x FROM B//r[.//n->x] JOIN {{{compare}, 1 day}} B//r[.//n->y]"
    return Made(query, times(r, nodes(r, 40, 90), 3))


def pieces(r: Random) -> Made:
    inside = "".join([f"<n>a{n},b,c</n>" for n in range(r.randint(40, 80))])
    query = "SELECT x FROM B//r[.//n->x] JOIN {tokenize(x, ',') = tokenize(y, ','), 1 day} B//r[.//n->y]"
    return Made(query, times(r, inside, 3))


def residual(r: Random) -> Made:
    names = ["x", "y", "z", "w"][: r.randint(3, 4)]
    block = "".join(f"[.//n->{name}]" for name in names)
    condition = r.choice([" + ".join(names) + " = 0.5", " * ".join(names) + " < 0"])
    query = f"SELECT k FROM B//r[./k->k]{block} {_way(r)} {{{condition}, 1 day}} B//r[./k->l]"
    return Made(query, times(r, nodes(r, 400, 600), 2))


def far(r: Random) -> Made:
    """Paths from variables of two documents, none of which a name stands for."""
    condition = r.choice(["x//n + y//n + x//n = 0.5", "NOT x//n * y//n * x//n < 9"])
    query = f"SELECT x FROM B//r->x {_way(r)} {{{condition}, 1 day}} B//r->y"
    return Made(query, times(r, nodes(r, 400, 600), 2))


def nested(r: Random) -> Made:
    query = (
        "SELECT a FROM (SELECT <e>{x}</e> FROM B//r[.//n->x])//e->a"
        " JOIN {1 day} (SELECT <f>{y}</f> FROM B//r[.//n->y])//f->b"
    )
    return Made(query, times(r, nodes(r, 40, 60), 2))


# -- streams of results --------------------------------------------------------------------------


def cascade(r: Random) -> Made:
    """Each publishes what others read: more with each step."""
    steps = r.randint(2, 4)
    parts = ["ID-0: SELECT <n>{x}</n> FROM B//r[.//n->x] PUBLISH T0;"]
    for n in range(1, steps):
        made = "<n>{x}</n>"
        parts.append(
            f"ID-{n}: SELECT {made} FROM T{n - 1}//n->x JOIN {{1 day}} T{n - 1}//n->y PUBLISH T{n};"
        )
    parts.append(f"ID: SELECT x FROM T{steps - 1}//n->x JOIN {{x = y, 1 day}} T{steps - 1}//n->y;")
    return Made(" ".join(parts), times(r, nodes(r, 40, 60)))


def many_derived(r: Random) -> Made:
    query = "ID-0: SELECT <e>{x}</e> FROM B//r[.//n->x] PUBLISH T0; ID: SELECT e FROM T0//e->e PUBLISH T1;"
    return Made(query, times(r, nodes(r, 400, 600)))


def growing(r: Random) -> Made:
    """Texts that grow with each stream."""
    steps = r.randint(2, 3)
    parts = []
    for n in range(steps):
        source = "B//r[./b->x]" if n == 0 else f"T{n - 1}//e->x"
        label = "ID" if n == steps - 1 else f"ID-{n}"
        parts.append(f"{label}: SELECT <e>{'{x}' * 20}</e> FROM {source} PUBLISH T{n};")
    return Made(" ".join(parts), ["x" * r.randint(500_000, 900_000)])


KINDS = [
    *(pairs, hot, chain, star, triangle, cross, or_join, unequal, functions, pieces),
    *(residual, far, nested, cascade, many_derived, growing),
]
