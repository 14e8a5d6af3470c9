"""The SASE engine's own workloads: the same streams, and the matches that it found.

    python -m tests.witnesses.sase --events 100000

runs each on so many of its events; those that end near the cut are left out.

Its window is the distance of the first and the last event, edges included, as WITHIN is. Of the
matches that begin with one event it gives the first, which is ONE PER START; of three single events
it gives all, as FOLLOWED BY does.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Sequence
from itertools import islice

from broker import Broker, Document
from tests.feeds.data import DATA

FOLDER = DATA / "cep_sase" / "derived"
BATCH = 500
NEAR = 1_000
"""Events before a cut whose matches may go on behind it."""

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
    "tw40k": ("timewindow40k", f"{THREE} PARTITION BY ./price WITHIN 40000"),
    "te10": ("twoequivalence10", f"{THREE} PARTITION BY ./price, ./volume WITHIN 10000"),
    "te50": ("twoequivalence50", f"{THREE} PARTITION BY ./price, ./volume WITHIN 10000"),
}

Found = list[list[int]]
"""The numbers of the events of each match."""


def event(row: dict[str, str]) -> Document:
    fields = "".join(f"<{name}>{row[name]}</{name}>" for name in ("symbol", "price", "volume"))
    xml = f"<{row['type']}>{fields}</{row['type']}>"
    return Document(row["id"], timestamp=float(row["ts"]), xml=xml)


def compare(name: str, most: int) -> tuple[Found, Found]:
    """What the broker finds in the first events of a workload, and what SASE found."""
    stream, query = WORKLOADS[name]
    with (FOLDER / f"{stream}.events.csv").open(encoding="utf-8") as lines:
        rows = csv.DictReader(lines)
        events = [*map(event, islice(rows, most))]
        cut = next(rows, None) is not None
    with Broker(lateness=0) as broker:
        broker.subscribe(f"q: {query}")
        batches = [events[n : n + BATCH] for n in range(0, len(events), BATCH)]
        found = [match for batch in batches for match in broker.process(batch)]
        found += broker.decide()
    got = sorted([int(document.id) for document in match.documents] for match in found)
    text = (FOLDER / f"{name}.expected.jsonl").read_text(encoding="utf-8")
    wanted = sorted(json.loads(line) for line in text.splitlines())
    if not cut:
        return got, wanted
    end = len(events) - NEAR
    return [ids for ids in got if ids[-1] < end], [ids for ids in wanted if ids[-1] < end]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.witnesses.sase")
    parser.add_argument("--events", type=int, default=100_000, help="of each stream")
    parser.add_argument("--seed", type=int, default=0, help="nothing here is random")
    options = parser.parse_args(arguments)
    if not FOLDER.is_dir():
        print(f"nothing was run: {FOLDER} is missing")
        return 1
    began, wrong, matches = time.process_time(), [], 0
    for name in WORKLOADS:
        got, wanted = compare(name, options.events)
        matches += len(wanted)
        if got != wanted:
            wrong.append(name)
        print(f"{name}: {len(got)} matches, SASE {len(wanted)}", flush=True)
    seconds = time.process_time() - began
    print(
        f"{len(WORKLOADS)} workloads, {matches} matches, wrong: {wrong or 'none'}; {seconds:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
