"""Queries: permanent ones, and those that a client registers, changes and drops."""

from __future__ import annotations

from random import Random

MET = ("met-s", "met-t")
"""Those of STANDING that tell which version of an item a document has met, each pair of them
once."""

STANDING = """
first: SELECT k AS k FROM S//a[./k->k] JOIN {k = l, 3 h} S//c[./k->l] PUBLISH pairs;
second: pairs//result->r[./k->k] JOIN {k = l, 3 h} S//b->x[./k->l];
met-s: SELECT g FROM S//item[./title->t][./category->g] JOIN {t = k, 3 h} S//*->y[./k->k];
met-t: SELECT g FROM S//item[./title->t][./category->g] JOIN {t = k, 3 h} T//*->y[./k->k]
"""
"""Registered before the first document, and never changed; one reads what another publishes."""

PATTERNS = """
alone: SELECT k AS k FROM S//a[./k->k] FOLLOWED BY {k = l, 1 h} NOT S//b[./k->l] WAIT 2 h;
crowd: SELECT k AS k, count(n) AS n FROM S//c[./k->k]
       FOLLOWED BY {k = l, 1 h} (S//b->y[./k->l][./n->n])+ WAIT 2 h;
fresh: SELECT k AS k, m FROM S//a[./k->k] NEXT {k = l} S//c->z[./k->l][./n->m]
       USING ONE PER START WITHIN 1 h WAIT 2 h;
silent: SELECT k AS k FROM S//a[./k->k] FOLLOWED BY NOT S//c[./k->m] FOLLOWED BY S//b[./k->l]
        WHERE l = k AND m = k WITHIN 1 h WAIT 2 h PUBLISH silences;
ended: SELECT k AS k FROM silences//result[./k->k] NEXT {l = k} S//c->z[./k->l] WITHIN 3 h WAIT 2 h;
rising: SELECT k AS k, last(n) AS n FROM S//a[./k->k][./n->m]
        FOLD {l = k AND n > prev(n, m), } S//b->y[./k->l][./n->n] WITHIN 2 h WAIT 2 h;
row: SELECT k AS k, count(n) AS n FROM S//a[./k->k] FOLLOWED BY (S//b->y[./n->n])+
     PARTITION BY ./k USING PARTITION CONTIGUITY WITHIN 1 h WAIT 2 h;
busy: SELECT k AS k, sum(n) AS n FROM S//c[./k->k][./n->n] WAIT 2 h
      GROUP BY k OVER 1 h HAVING count(n) > 1;
apart: SELECT k AS k FROM (S//a[./k->k] OR S//b[./k->k]) FOLLOWED BY {5 min AFTER} S//c->z
       PARTITION BY ./k USING SKIP TILL ANY MATCH NON OVERLAPPING WITHIN 1 h WAIT 2 h
"""
"""Event patterns of all kinds, registered with STANDING; one reads what another publishes. Some
documents are too late for them, not for others."""

NAMES = ("first", "second", *MET)
PATTERN_NAMES = ("alone", "crowd", "fresh", "silent", "ended", "rising", "row", "busy", "apart")
PERMANENT = (*NAMES, *PATTERN_NAMES)

_KEYED = (
    "S//a->x[./k->k] FOLLOWED BY {{k = l, {w} min}} S//b->y[./k->l]",
    "SELECT k, v, u FROM S//a[./k->k][./v->v] JOIN {{k = l AND v != u, {w} min}} "
    "S//c[./k->l][./v->u]",
    "S//a->x[./k->k] FOLLOWED BY {{k = l, {w} min}} S//b->y[./k->l]"
    " FOLLOWED BY {{l = m, {w} min}} S//c->z[./k->m]",
    "SELECT k, g FROM S//item[./title->t][./category->g] JOIN {{t = k, {w} min}} S//a->y[./k->k]",
    "SELECT k, g FROM S//item[./title->t][./category->g]"
    " JOIN {{t = k AND g != 'v0', {w} min}} S//a->y[./k->k]",
    "S//c->x[./k->k][./v = {c}] FOLLOWED BY {{k = l, {w} min}} S//b->y[./k->l]",
    "T//b->x[./k->k] JOIN {{k = l, {w} min}} S//c->y[./k->l]",
    "T//*->x[./k->k] FOLLOWED BY {{k = t, {w} min}} S//item->y[./title->t]",
)
"""Matches of these have values of k, of which each group has one. Two that match the same documents
publish the same of them."""

_OTHERS = ("SELECT n FROM S//b[./v > {c}][./n->n]",)


def query(random: Random, id: str, *, keyed: bool = False) -> str:
    """A query of some shape and window; `keyed`: its matches have values of k."""
    shape = random.choice(_KEYED if keyed else _KEYED + _OTHERS)
    text = shape.format(w=random.choice((20, 60, 150)), c=random.randrange(4))
    return f"{id}: {text}"


def frequent(id: str) -> str:
    """A query that matches more than half of the documents of one kind."""
    return f"{id}: {_OTHERS[0].format(c=1)}"
