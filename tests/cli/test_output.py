"""Matches that commands append to a file, also if others write to it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker import Broker, Document, Match
from broker.cli.output import Delivery, Output
from tests.delivery.support import match

ROOT = Path(__file__).parent.parent.parent

APPENDER = """
import sys
from broker.cli.output import Output
from tests.delivery.support import match
print("ready", flush=True)
sys.stdin.readline()
output = Output(sys.argv[1], "jsonl")
for n in range(200):
    output.write([match(n, sys.argv[2])])
output.close()
"""


def test_two_commands_may_append_to_one_file(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDER, out, name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("tides", "ships")
    ]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in running:
        each.communicate("\n")
        assert each.returncode == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    for name in ("tides", "ships"):
        ids = [each["id"] for each in found if each["query"] == name]
        assert ids == [match(n, name).id for n in range(200)]


def test_what_an_earlier_run_wrote_stays_and_comes_again(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    for _ in range(2):
        output = Output(str(out), "jsonl")
        output.write([match(0), match(1)])
        output.close()
    lines = out.read_text().splitlines()
    assert lines[:2] == lines[2:]
    assert len(lines) == 4


def test_half_characters_are_escaped(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "out"), "jsonl")
    output.write([match(0, values={"title": ["half \ud83d"]})])
    output.close()
    reply = json.loads((tmp_path / "out").read_bytes())
    assert reply["values"] == {"title": ["half \ud83d"]}


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    """A device or a named pipe cannot be synced, cut or looked at."""
    reader = subprocess.Popen(
        ["sh", "-c", 'mkfifo "$0" && echo made && cat "$0"', tmp_path / "pipe"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "made\n"
    output = Output(str(tmp_path / "pipe"), "jsonl")
    for n in range(2):
        output.write([match(n)])
    output.close()
    told, _ = reader.communicate()
    assert [json.loads(line)["id"] for line in told.splitlines()] == [match(0).id, match(1).id]


class Interrupted(Broker):
    """A broker whose matches are written, and then Ctrl-C comes."""

    def acknowledge(self, matches: Iterable[Match | str]) -> None:
        signal.raise_signal(signal.SIGINT)
        super().acknowledge(matches)


def test_a_signal_between_writing_and_acknowledging_writes_nothing_twice(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with Interrupted(tmp_path / "state") as broker:
        broker.subscribe("all: SELECT t FROM S//item[./title->t];")
        matches = broker.process([Document("1", "S", 0.0, "<item><title>a</title></item>")])
        delivery = Delivery(broker, str(out), "jsonl")
        with pytest.raises(KeyboardInterrupt):
            delivery(matches)
        assert broker.undelivered() == []
        delivery.pending()
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1
