"""Documents out of order, and too late ones, through the whole service."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from broker.model import iso_time
from tests.crash.expected import Expected
from tests.crash.plain import Plain
from tests.crash.world import SECOND, Doc

QUERIES = """
follow: S//a->x[./k->k] FOLLOWED BY {k = l, 40 min} S//b->y[./k->l];
three: S//a->x[./k->k] JOIN {k = l, 1 h} S//b->y[./k->l] FOLLOWED BY {l = m, 90 min} S//c->z[./k->m]
"""
LATENESS = 6 * 3_600 * SECOND


def documents(random: Random, count: int, begin: datetime) -> list[Doc]:
    """In the order of their times."""
    start = int(begin.timestamp()) * SECOND
    found = []
    for n in range(count):
        kind, key = random.choice("abc"), f"k{n // 8}"
        xml = f"<{kind}><k>{key}</k></{kind}>"
        found.append(Doc(f"d{n}", "post:S", ("S",), start + n * 600 * SECOND, xml, key, "posted"))
    return found


def shuffled(random: Random, docs: Sequence[Doc]) -> list[Doc]:
    """Each within the lateness of those that come before it."""
    return sorted(docs, key=lambda doc: doc.timestamp + random.randrange(LATENESS - SECOND))


def test_order_within_the_lateness_changes_nothing(tmp_path: Path) -> None:
    """The same matches in any order; what is later is kept aside with the reason."""
    random = Random(12)
    docs = documents(random, 240, datetime.now(UTC) - timedelta(days=5))
    told: list[set[tuple[str, ...]]] = []
    for number, order in enumerate((docs, shuffled(random, docs), shuffled(random, docs))):
        with Plain(tmp_path / str(number), time={"lateness": "6 h", "idle": "300 days"}) as plain:
            plain.served.start()
            plain.subscribe(QUERIES)
            left = list(order)
            while left:
                cut = random.randint(1, 30)
                _post(plain, left[:cut])
                del left[:cut]
            plain.drained()
            assert plain.letters() == []
            matches = plain.served.matches()
            found = {(m["query"], *(d["id"] for d in m["documents"])) for m in matches}
            assert len(found) == len(matches)
            told.append(found)
            # Half an hour too late, and just in time.
            newest = docs[-1].timestamp
            late = Doc("late", "post:S", ("S",), newest - LATENESS - 1, "<a/>", "", "late")
            edge = Doc("edge", "post:S", ("S",), newest - LATENESS, "<a/>", "", "posted")
            _post(plain, [late, edge])
            plain.drained()
            assert [(letter["id"], letter["reason"][:5]) for letter in plain.letters()] == [
                ("late", "late:")
            ]
            assert plain.served.stop() == 0
    expected = Expected(
        {doc.name: doc for doc in docs}, {doc.name: n for n, doc in enumerate(docs)}
    )
    keys = [hit.key for hit in expected.of(QUERIES, 0)]
    wanted = {(key.query, *(id for id, _ in key.documents)) for key in keys}
    assert len(wanted) > 50
    assert told == [wanted] * 3


def _post(plain: Plain, docs: Sequence[Doc]) -> None:
    lines = "".join(
        json.dumps({"id": doc.id, "timestamp": iso_time(doc.timestamp), "xml": doc.xml}) + "\n"
        for doc in docs
    )
    headers = {"Content-Type": "application/x-ndjson"}
    answer = plain.served.http.post("/v1/streams/S/documents", content=lines, headers=headers)
    assert answer.status_code == 202, answer.text
