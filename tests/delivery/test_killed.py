"""The delivering process is killed repeatedly: no match is lost, the order is kept."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker.delivery import Mailbox
from tests.command import Command, program
from tests.delivery.support import Answer, Receiver, Request, match
from tests.waiting import PATIENCE, pause

PROGRAM = """
import sys
from pathlib import Path
from broker.delivery import DeliverySettings, DeliveryWorker, Mailbox
from tests.delivery.support import match
from tests.waiting import until

directory, port, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with Mailbox(directory / "mailbox.sqlite") as mailbox:
    for name, ordered in (("ordered", True), ("unordered", False)):
        url = f"http://127.0.0.1:{port}/{name}"
        mailbox.put_channel(name, "webhook", settings={"url": url}, ordered=ordered, after=0)
    out = {"path": str(directory / "out.jsonl"), "rotate_bytes": 100_000, "keep": 100}
    mailbox.put_channel("file", "file", settings=out, after=0)
    worker = DeliveryWorker(
        mailbox, DeliverySettings(allow_private=True, schedule=(0.05,) * 1000, jitter=0.0)
    )
    worker.start()
    print("ready", flush=True)
    # The engine's outbox: what was not acknowledged comes again, from some place before the last.
    start = max(0, mailbox.last() - 40)
    while start < count:
        mailbox.take([match(n) for n in range(start, min(start + 25, count))])
        start += 25
    until(lambda: all(c.cursor == count for c in mailbox.channels()))
    until(lambda: mailbox.figures().retries == 0)
    worker.stop(10)
"""


@contextmanager
def moody(seed: int) -> Iterator[Receiver]:
    """It answers as receivers do: mostly well, sometimes not at all."""
    moods = random.Random(seed)

    def answer(_: Request) -> Answer:
        mood = moods.random()
        if mood < 0.01:
            pause(0.05)
        return (500 if mood > 0.98 else 204), {}, b""

    with Receiver(answer) as receiver:
        yield receiver


def run(directory: Path, receiver: Receiver, count: int) -> Command:
    process = program(PROGRAM, directory, receiver.port, count, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_killed_at_random_moments(tmp_path: Path) -> None:
    killed(tmp_path, 5, 11)


def killed(directory: Path, kills: int, seed: int) -> None:
    """A mailbox lives through so many kills; then everything has arrived as it should."""
    with moody(seed) as receiver:
        _killed(directory, receiver, kills, seed)


def _killed(directory: Path, receiver: Receiver, kills: int, seed: int) -> None:
    moments = random.Random(seed)
    count = 200 * kills  # enough to be delivered in each life
    for _ in range(kills):
        seen = len(receiver.requests)
        process = run(directory, receiver, count)
        alarm = threading.Timer(moments.uniform(0.0, 0.5), process.send_signal, (signal.SIGKILL,))
        # Not before it has delivered something, so that there is progress.
        receiver.wait(seen + 10)
        alarm.start()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()
    process = run(directory, receiver, count)
    assert process.wait(PATIENCE) == 0
    assert process.stdout is not None
    process.stdout.close()

    expected = [match(n).id for n in range(count)]
    with Mailbox(directory / "mailbox.sqlite") as mailbox:
        mailbox.check()
        assert [d.match.id for d in mailbox.matches(None, 0, 2 * count)] == expected
        assert mailbox.dead() == []
    arrived = {
        name: [request.id for request in receiver.requests if request.path == f"/{name}"]
        for name in ("ordered", "unordered")
    }
    assert set(arrived["unordered"]) == set(expected)
    assert [*dict.fromkeys(arrived["ordered"])] == expected, "first arrivals are in order"
    files = sorted(directory.glob("out.jsonl.*"), key=lambda path: -int(path.suffix[1:]))
    lines = [
        json.loads(line)["id"]
        for path in (*files, directory / "out.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert lines == expected, "each match stands in the files once, in order"
