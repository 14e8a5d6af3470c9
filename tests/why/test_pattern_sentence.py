"""What is said of an event pattern before anything else."""

from __future__ import annotations

import pytest

import xscl
from broker.why.pattern_sentence import pattern_sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "S//item->x FOLLOWED BY {1 min} NOT S//stop FOLLOWED BY S//o->y",
            "finds an item of S (A), followed within 1 min by no stop of S (B), followed by an o"
            " of S (C); a match shows what its blocks select",
        ),
        (
            "SELECT t, count(g) AS n FROM S//i[./t->t] FOLLOWED BY (S//entry->g){2,5}"
            " PARTITION BY ./t WITHIN 1 hour PUBLISH out",
            "finds an i of S (A), followed by 2 to 5 of (an entry of S (B)), all within 1 h, by"
            " itself for each ./t; a match shows t, n; it publishes the stream out",
        ),
        (
            "S//a OR S//b JOIN NOT S//c WITHIN 2 days",
            "finds either an a of S (A) or a b of S (B) and no c of S (C) in any order, all within"
            " 2 days; a match shows what its blocks select",
        ),
        (
            "S//q[./p->p] FOLD {s > 1, s > m, s AS m FROM p} S//q[./n->s]",
            "finds a q of S (A), and then one after the other each q of S (B), where s > 1 and"
            " s > m; a match shows what its blocks select",
        ),
        (
            "(NOT S//a FOLLOWED BY S//b->x WITHIN 2 days) NEXT {x = y} S//c->y",
            "finds (no a of S (A), followed by a b of S (B), all within 2 days), and the next c of"
            " S (C), where x = y; a match shows what its blocks select",
        ),
    ],
)
def test_the_sentence_names_blocks_order_windows_and_conditions(text: str, said: str) -> None:
    (query,) = xscl.check([xscl.parse(text)]).queries
    assert pattern_sentence(query) == said
