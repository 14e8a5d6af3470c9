"""Event patterns where documents are kept for less time than their windows are long, or little more."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from broker.service.core.answers import Posted
from tests.seeds import seeds
from tests.service.data import HOUR
from tests.service.desk import Desk

QUERIES = {
    "fold": "S/a[./x->t][./y->p] FOLD {t = s, q < prev(q, p)} S/a[./x->s][./y->q]"
    " WHERE count(q) >= 2 WITHIN 2 hours",
    "not": "S//a[./x->p] FOLLOWED BY {p = q, 40 min} NOT S//b[./x->q]",
    "next": "S//a[./x->p] NEXT {p = q, 2 hours} S//b[./x->q]",
}


@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("name", ["fold", "not", "next"])
@pytest.mark.parametrize("seed", seeds(3, 20))
def test_what_is_deleted_is_in_no_match(
    tmp_path: Path, name: str, seed: int, remembers: bool
) -> None:
    """Whether it is still remembered or not; and the state can be opened again."""
    random = Random(seed)
    desk = Desk(tmp_path / "state", remembers=remembers, retention={"documents": "1 h"})
    desk.subscribe(f"q: {QUERIES[name]};")
    clock = desk.core.now() - 50 * HOUR
    for n in range(120):
        clock += random.randrange(HOUR // 20)
        tag = random.choice("aab")
        text = f"<{tag}><x>{random.randrange(4)}</x><y>{random.randrange(9)}</y></{tag}>"
        before = len(desk.found())
        stored = {
            id
            for (id,) in desk.core.engine.store.rows(
                "SELECT id FROM documents WHERE xml IS NOT NULL"
            )
        }
        desk.publish(Posted(text.encode(), id=f"d{n}", timestamp=clock))
        for match in desk.found()[before:]:
            assert {each.id for each in match.documents} <= {*stored, f"d{n}"}
        if random.random() < 0.3:
            desk.upkeep.retain()
    assert desk.found()
    desk.again()
    desk.core.close()
