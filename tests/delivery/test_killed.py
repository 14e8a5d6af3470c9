"""The process that takes and delivers, killed again and again: nothing lost, order kept."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.delivery import Mailbox
from tests.delivery.support import LONG, Answer, Receiver, Request, match

ROOT = Path(__file__).parent.parent.parent
MATCHES = 1_500
KILLS = int(os.environ.get("DELIVERY_KILLS", "8"))

PROGRAM = """
import sys
from pathlib import Path
from broker.delivery import DeliverySettings, DeliveryWorker, Mailbox
from tests.delivery.support import match, until

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
    until(lambda: all(c.cursor == count for c in mailbox.channels()), 100)
    until(lambda: mailbox.figures().retries == 0, 20)
    worker.stop(10)
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """It answers as receivers do: mostly well, sometimes not at all."""
    moods = random.Random(7)

    def answer(_: Request) -> Answer:
        mood = moods.random()
        if mood < 0.01:
            time.sleep(0.05)
        return (500 if mood > 0.98 else 204), {}, b""

    with Receiver(answer) as receiver:
        yield receiver


def run(directory: Path, receiver: Receiver) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(directory), str(receiver.port), str(MATCHES)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_killed_at_random_moments(tmp_path: Path, receiver: Receiver) -> None:
    moments = random.Random(11)
    for _ in range(KILLS):
        seen = len(receiver.requests)
        process = run(tmp_path, receiver)
        alarm = threading.Timer(moments.uniform(0.0, 0.5), process.send_signal, (signal.SIGKILL,))
        # Not before it has delivered something, so that there is progress.
        receiver.wait(seen + 10)
        alarm.start()
        process.wait(LONG)
        assert process.stdout is not None
        process.stdout.close()
    process = run(tmp_path, receiver)
    assert process.wait(120) == 0
    assert process.stdout is not None
    process.stdout.close()

    expected = [match(n).id for n in range(MATCHES)]
    with Mailbox(tmp_path / "mailbox.sqlite") as mailbox:
        mailbox.check()
        assert [d.match.id for d in mailbox.matches(None, 0, 2 * MATCHES)] == expected
        assert mailbox.dead() == []
    arrived = {
        name: [request.id for request in receiver.requests if request.path == f"/{name}"]
        for name in ("ordered", "unordered")
    }
    assert set(arrived["unordered"]) == set(expected)
    assert [*dict.fromkeys(arrived["ordered"])] == expected, "first arrivals are in order"
    files = sorted(tmp_path.glob("out.jsonl.*"), key=lambda path: -int(path.suffix[1:]))
    lines = [
        json.loads(line)["id"]
        for path in (*files, tmp_path / "out.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert lines == expected, "each match stands in the files once, in order"
