"""What do the marks cost that end crash loops, and the proofs that find lost files, per document?

    python -m bench.guards [--documents 1000] [--quick]

A state as a service has it, on the disk of the temporary directory, with one subscription that each
document matches. Documents are accepted and matched in groups of 1, 10 and 100, as they are when
few and when many wait. Microseconds of CPU time a document: all of it, and what is spent in marks
(`working.json`, before and behind each batch) and in proofs (`proof`, synced before documents count
as accepted); beside it the time for which the proof's sync waits for the disk.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import finish, parser, table
from broker.query.prepared import compile_query
from broker.service.core.answers import Posted
from broker.service.core.core import Core
from broker.service.intake import Intake
from broker.settings.schema import Settings
from feeds.spool import read_rows
from xscl import check, parse


class Timed:
    """CPU and wall seconds in functions, by name."""

    def __init__(self) -> None:
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.wall: defaultdict[str, float] = defaultdict(float)

    def wrap(self, owner: Any, attribute: str, name: str) -> None:
        """Have the calls of a method of an object timed."""
        inner: Callable[..., Any] = getattr(owner, attribute)

        def timed(*args: Any, **named: Any) -> Any:
            cpu, wall = time.thread_time(), time.perf_counter()
            try:
                return inner(*args, **named)
            finally:
                self.cpu[name] += time.thread_time() - cpu
                self.wall[name] += time.perf_counter() - wall

        setattr(owner, attribute, timed)


def measured(directory: Path, documents: int, group: int) -> list[str]:
    core = Core(Settings.model_validate({"state": directory, "pipeline": {"kind": "local"}}))
    timed = Timed()
    try:
        program = check([parse("q: SELECT n FROM S//a[./n->n];")])
        core.engine.subscribe([compile_query(query) for query in program.queries], core.now())
        timed.wrap(core.careful.marks, "begin", "marks")
        timed.wrap(core.careful.marks, "end", "marks")
        timed.wrap(core.proof, "note_documents", "proofs")
        timed.wrap(core.proof, "sync", "proofs")
        intake = Intake(core, lambda: 1.0)
        begun = time.process_time()
        for first in range(0, documents, group):
            posted = [
                Posted(f"<a><n>{number}</n></a>".encode()) for number in range(first, first + group)
            ]
            intake.publish("S", posted)
            core.apply([*read_rows(core.spool.path, core.position, 2**62)])
            core.empty_outbox()
        whole = time.process_time() - begun
    finally:
        core.close()
    unit = 1e6 / documents
    return [
        f"{group}",
        f"{whole * unit:,.0f}",
        f"{timed.cpu['marks'] * unit:,.1f}",
        f"{timed.cpu['proofs'] * unit:,.1f}",
        f"{timed.wall['proofs'] * unit:,.0f}",
    ]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--documents", type=int, default=1_000)
    asked = arguments.parse_args()
    documents = 400 if asked.quick else asked.documents
    rows = []
    for group in (1, 10, 100):
        with tempfile.TemporaryDirectory(prefix="guards-") as directory:
            rows.append(measured(Path(directory), documents, group))
        print(*rows[-1], flush=True)
    header = ["documents at once", "all, CPU", "marks, CPU", "proofs, CPU", "proofs, waited"]
    finish("guards", [table(header, rows)], asked.quick)


if __name__ == "__main__":
    main()
