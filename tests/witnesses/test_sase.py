"""The SASE engine's own workloads: the same streams, and the matches that it found.

Its window is the distance of the first and the last event, edges included, as WITHIN is. Of the
matches that begin with one event it gives the first, which is ONE PER START; of three single events
it gives all, as FOLLOWED BY does.
"""

from __future__ import annotations

import csv
import json
from itertools import islice

import pytest

from broker import Broker, Document
from tests.feeds.data import DATA

FOLDER = DATA / "cep_sase" / "derived"
BATCH = 500
LONG = {"Q1": 12_500}
"""How many events of a long stream are run."""

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is missing")

THREE = "S/stock1 FOLLOWED BY S/stock2 FOLLOWED BY S/stock3"
RISING = (
    "(S/stock[./price->p])+ FOLLOWED BY S/stock[./volume->w] PARTITION BY ./symbol"
    " USING PARTITION CONTIGUITY ONE PER START WHERE first(p) mod 500 = 0 AND w < 150"
)
WORKLOADS = {
    "Q1": ("Q1", f"{RISING} AND p > prev(p) WITHIN 500"),
    "qts2-p1": ("Q1", f"{RISING} WITHIN 500"),
    "Q2": ("Q2", f"{THREE} PARTITION BY ./price USING SKIP TILL NEXT MATCH WITHIN 10000"),
    "ds500": ("domainsize500", f"{THREE} PARTITION BY ./price WITHIN 10000"),
    "ds1000": ("domainsize1000", f"{THREE} PARTITION BY ./price WITHIN 10000"),
    "ds5000": ("domainsize5000", f"{THREE} PARTITION BY ./price WITHIN 10000"),
    "tw20k": ("timewindow20k", f"{THREE} PARTITION BY ./price WITHIN 20000"),
    "te10": ("twoequivalence10", f"{THREE} PARTITION BY ./price, ./volume WITHIN 10000"),
    "te50": ("twoequivalence50", f"{THREE} PARTITION BY ./price, ./volume WITHIN 10000"),
}


def event(row: dict[str, str]) -> Document:
    fields = "".join(f"<{name}>{row[name]}</{name}>" for name in ("symbol", "price", "volume"))
    xml = f"<{row['type']}>{fields}</{row['type']}>"
    return Document(row["id"], timestamp=float(row["ts"]), xml=xml)


@pytest.mark.parametrize("name", WORKLOADS)
def test_its_workloads(name: str) -> None:
    stream, query = WORKLOADS[name]
    cut = LONG.get(stream)
    with (FOLDER / f"{stream}.events.csv").open(encoding="utf-8") as lines:
        events = [*map(event, islice(csv.DictReader(lines), cut))]
    with Broker(lateness=0) as broker:
        broker.subscribe(f"q: {query}")
        batches = [events[n : n + BATCH] for n in range(0, len(events), BATCH)]
        found = [match for batch in batches for match in broker.process(batch)]
        found += broker.decide()
    got = sorted([int(document.id) for document in match.documents] for match in found)
    text = (FOLDER / f"{name}.expected.jsonl").read_text(encoding="utf-8")
    wanted = sorted(json.loads(line) for line in text.splitlines())
    if cut is not None:  # what ends near the cut may go on behind it
        got, wanted = ([ids for ids in of if ids[-1] < cut - 1_000] for of in (got, wanted))
    assert wanted
    assert got == wanted
