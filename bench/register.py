"""What does a subscription cost in CPU and memory, and does that grow with how many there are?

    python -m bench.register [--quick] [--most 1000000]

Two workloads. *joins*: two blocks over an item of five leaves, one to five value joins between
distinct leaves, FOLLOWED BY, windows of many lengths (the dissertation, section 6.6.1); there are
only 1,545 such join graphs, so that many subscribers share a canonical query. *constants*: "author
X and keyword Y, followed within a day by the same link", each with constants of its own.

Each row is a process of its own with a state directory. Per subscription: parsing, checking, and
registering (the passes, the catalogue, stage 1, the store), in microseconds of CPU; the growth of
the process's memory, the tables of stage 2 included. Beside it what the passes alone cost where
each query is compiled by itself, as if none were like another. At that size: adding one and
removing one, with bringing stage 2 up to date; and starting again from the state directory.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import xscl
from bench.measure import finish, parser, resident
from broker import Broker
from broker.query import prepared
from broker.query.prepared import run_passes
from xscl.growth import growing

AT_ONCE = 10_000
CHANGES = 20
ALONE = 500


def joins(number: int) -> str:
    rng = random.Random(number)
    count = rng.randint(1, 5)
    left = sorted(rng.sample(range(5), count))
    right = rng.sample(range(5), count)
    window = rng.choice(["INFINITY", "1 day", f"{rng.randrange(1, 1_000_000)} s"])
    equal = " AND ".join(f"a{i} = b{j}" for i, j in zip(left, right, strict=True))
    first = "".join(f"[./leaf{i}->a{i}]" for i in left)
    second = "".join(f"[./leaf{j}->b{j}]" for j in sorted(right))
    return f"q{number}: S//item->a{first} FOLLOWED BY {{{equal}, {window}}} S//item->b{second};\n"


def constants(number: int) -> str:
    return (
        f"q{number}: S//item->a[./author = 'Stranger {number}']"
        f"[contains(./title, 'theme{number}')][./link->l]"
        " FOLLOWED BY {l = m, 1 day} S//item->b[./link->m];\n"
    )


WORKLOADS: dict[str, Callable[[int], str]] = {"joins": joins, "constants": constants}
HEAD = (
    f"{'workload':10}{'number':>10}{'parse':>7}{'check':>7}{'register':>10}{'in all':>8}"
    f"{'by itself':>11}{'KB each':>9}{'canonical':>11}{'add ms':>8}{'remove ms':>11}"
    f"{'restart s':>11}{'us each':>9}{'KB each':>9}"
)


def by_itself(query: Callable[[int], str]) -> float:
    """Microseconds of the passes over a query, when no shape is shared; templates are known."""
    program = xscl.check([xscl.parse("".join(map(query, range(ALONE))))])
    for _ in range(2):
        begin = time.process_time()
        for resolved in program.queries:
            run_passes(resolved)
    return (time.process_time() - begin) / ALONE * 1e6


def register(name: str, count: int, state: str) -> str:
    """Everything but the restart, as the first columns of the row."""
    query = WORKLOADS[name]
    alone = by_itself(query)
    prepared.forget()
    before = resident()
    parsing = checking = registering = 0.0
    with Broker(state) as broker:
        for start in range(0, count, AT_ONCE):
            text = "".join(map(query, range(start, min(count, start + AT_ONCE))))
            with growing(AT_ONCE):
                begin = time.process_time()
                file = xscl.parse(text)
                parsed = time.process_time()
                program = xscl.check([file])
                checked = time.process_time()
                broker.engine.subscribe([prepared.compile_query(q) for q in program.queries])
                parsing += parsed - begin
                checking += checked - parsed
                registering += time.process_time() - checked
                del file, program
        begin = time.process_time()
        broker.engine.joiner.refresh()
        registering += time.process_time() - begin
        grown = resident() - before
        canonical = len(broker.engine.catalog.canonical)
        adding = removing = 0.0
        for number in range(count, count + CHANGES):
            begin = time.process_time()
            broker.subscribe(query(number))
            broker.engine.joiner.refresh()
            added = time.process_time()
            broker.unsubscribe(f"q{number - count // 2}")
            broker.engine.joiner.refresh()
            adding += added - begin
            removing += time.process_time() - added
    phases = [seconds / count * 1e6 for seconds in (parsing, checking, registering)]
    return (
        f"{name:10}{count:10,}{phases[0]:7.0f}{phases[1]:7.0f}{phases[2]:10.0f}{sum(phases):8.0f}"
        f"{alone:11.0f}{grown / count / 1024:9.2f}{canonical:11,}"
        f"{adding / CHANGES * 1e3:8.2f}{removing / CHANGES * 1e3:11.2f}"
    )


def restart(count: int, state: str) -> str:
    before, begin = resident(), time.process_time()
    with Broker(state) as broker:
        broker.engine.joiner.refresh()
        seconds = time.process_time() - begin
        assert len(broker.engine.catalog.subscriptions) == count
        grown = resident() - before
    return f"{seconds:11.1f}{seconds / count * 1e6:9.0f}{grown / count / 1024:9.2f}"


STEPS = ("register", "restart")


def one(step: str, name: str, count: int, state: str) -> str:
    """A step in a process of its own; its part of the row."""
    command = [sys.executable, "-m", "bench.register", "--one", step, name, str(count), state]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout.rstrip("\n")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--most", type=int, default=1_000_000)
    options.add_argument("--only", choices=WORKLOADS)
    options.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        step, name, count, state = given.one
        print(
            register(name, int(count), state) if step == "register" else restart(int(count), state)
        )
        return
    most = 10_000 if given.quick else given.most
    lines = [HEAD]
    print(HEAD, flush=True)
    for name in [given.only] if given.only else WORKLOADS:
        count = 1_000
        while count <= most:
            with tempfile.TemporaryDirectory() as state:
                lines.append("".join(one(step, name, count, state) for step in STEPS))
            print(lines[-1], flush=True)
            count *= 10
    note = "CPU time; by subscription in microseconds."
    finish(
        "register",
        ["```text\n" + "\n".join(lines) + "\n```"],
        given.quick or bool(given.only),
        note,
    )


if __name__ == "__main__":
    main()
