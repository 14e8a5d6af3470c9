"""File channels: complete lines, each once, in order, also after a crash at any point; rotation."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.delivery import Delivered, Mailbox
from broker.delivery.files import formatted, write
from broker.delivery.targets import FileTarget
from tests.delivery.support import START, Clock, at, delivering, match, open_mailbox, tried
from tests.waiting import until

ROOT = Path(__file__).parent.parent.parent


def numbered(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def delivered(first: int, count: int) -> list[Delivered]:
    return [Delivered(n, START, match(n)) for n in range(first, first + count)]


def test_lines_in_order_also_across_restarts(mailbox: Mailbox, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    mailbox.put_channel("file", "file", settings={"path": str(out)})
    for start in (0, 700, 1_400):
        with delivering(mailbox):
            mailbox.take([match(n) for n in range(start, start + 700)])
            until(at(mailbox, "file", start + 700))
    assert numbered(out) == [*range(1, 2_101)]
    first = json.loads(out.read_text().splitlines()[0])
    assert first == mailbox.matches(None, 0, 1)[0].to_json()


@pytest.mark.parametrize("form", ["jsonl", "xml", "text"])
def test_formats(mailbox: Mailbox, tmp_path: Path, form: str) -> None:
    out = tmp_path / "out"
    mailbox.put_channel("file", "file", settings={"path": str(out), "format": form})
    with delivering(mailbox):
        mailbox.take([match(0), match(1, values={"title": ["half \ud83d"]})])
        until(lambda: mailbox.channel("file").cursor == 2)
    text = out.read_text()
    expected = {"jsonl": match(1).id, "xml": match(1).result, "text": "The Tide Clerk 1 (Courier)"}
    assert expected[form] in text


@pytest.mark.parametrize(
    ("form", "left_out", "says"), [("text", 0, False), ("text", 1_200, True), ("xml", 3, False)]
)
def test_text_says_what_a_throttle_left_out_where_there_is_any(
    form: str, left_out: int, says: bool
) -> None:
    line = formatted(form, Delivered(1, START, match(1), left_out)).decode()
    assert line.endswith("(1,200 before it were left out)\n\n") == says
    assert ("left out" in line) == says


CUTS = [0, 1, 200, -1, None]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("before", [0, 3])
def test_a_crash_between_write_and_cursor_leaves_no_line_twice_or_torn(
    tmp_path: Path, before: int, cut: int | None
) -> None:
    """The write after the last known state got as far as `cut` bytes."""
    file = FileTarget(str(tmp_path / "out"))
    out = Path(file.path)
    state: Any = write(file, {}, delivered(1, before)).state if before else {}
    whole = b"".join(formatted("jsonl", d) for d in delivered(before + 1, 2))
    with out.open("ab") as torn:
        torn.write(whole[:cut])
    sent = write(file, state, delivered(before + 1, 4))
    assert numbered(out) == [*range(1, before + 5)]
    assert sent.state is not None
    assert sent.state["offset"] == out.stat().st_size


def test_what_something_else_has_written_stays(tmp_path: Path) -> None:
    file = FileTarget(str(tmp_path / "out"))
    out = Path(file.path)
    out.write_text('{"n": 0}\n{"n": 0')  # torn, and not by us
    state = write(file, {}, delivered(1, 1)).state
    assert state is not None
    with out.open("a") as other:
        other.write('{"n": 99}\n')
    state = write(file, state, delivered(2, 1)).state
    assert state is not None
    lines = out.read_text().splitlines()
    assert lines[:2] == ['{"n": 0}', '{"n": 0']
    assert [json.loads(line)["n"] for line in lines[2:]] == [1, 99, 2]
    os.truncate(out, 10)  # cut by its owner
    write(file, state, delivered(3, 1))
    assert out.read_text().splitlines()[0] == '{"n": 0}'
    assert numbered_last(out) == 3


def numbered_last(path: Path) -> int:
    return int(json.loads(path.read_text().splitlines()[-1])["n"])


def test_a_file_moved_away_is_begun_anew(tmp_path: Path) -> None:
    file = FileTarget(str(tmp_path / "out"))
    out = Path(file.path)
    state = write(file, {}, delivered(1, 2)).state
    assert state is not None
    out.rename(tmp_path / "moved")
    state = write(file, state, delivered(3, 1)).state
    assert state is not None
    assert numbered(out) == [3]
    out.unlink()
    write(file, state, delivered(4, 1))
    assert numbered(out) == [4]
    assert numbered(tmp_path / "moved") == [1, 2]


def test_rotation_keeps_order_and_so_many_files(mailbox: Mailbox, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    mailbox.put_channel(
        "file", "file", settings={"path": str(out), "rotate_bytes": 5_000, "keep": 3}
    )
    with delivering(mailbox):
        mailbox.take([match(n) for n in range(100)])
        until(lambda: mailbox.channel("file").cursor == 100)
    names = sorted(path.name for path in tmp_path.glob("out*"))
    assert names == ["out.jsonl", "out.jsonl.1", "out.jsonl.2", "out.jsonl.3"]
    assert all((tmp_path / name).stat().st_size <= 5_000 for name in names)
    kept = [n for name in reversed(names[1:]) for n in numbered(tmp_path / name)] + numbered(out)
    assert kept == [*range(kept[0], 101)]
    assert kept[0] > 1


@pytest.mark.parametrize("written", [0, 150, None])
def test_a_crash_after_rotation_leaves_no_line_twice(tmp_path: Path, written: int | None) -> None:
    size = len(formatted("jsonl", delivered(1, 1)[0]))
    file = FileTarget(str(tmp_path / "out"), rotate_bytes=size * 3 + 20, keep=2)
    out = Path(file.path)
    state = write(file, {}, delivered(1, 3)).state
    assert state is not None
    # The process died when it had moved the file, and written some of the next.
    out.rename(tmp_path / "out.1")
    following = b"".join(formatted("jsonl", d) for d in delivered(4, 3))
    out.write_bytes(following[:written])
    sent = write(file, state, delivered(4, 5))
    assert sent.count == 3
    assert numbered(out) == [4, 5, 6]
    assert numbered(tmp_path / "out.1") == [1, 2, 3]
    assert not (tmp_path / "out.2").exists()


def test_a_line_longer_than_a_file_may_be_stands_alone(tmp_path: Path) -> None:
    file = FileTarget(str(tmp_path / "out"), rotate_bytes=10, keep=1)
    state: Any = {}
    for n in range(1, 4):
        sent = write(file, state, delivered(n, 4))
        assert sent.count == 1
        state = sent.state
    assert numbered(tmp_path / "out") == [3]
    assert numbered(tmp_path / "out.1") == [2]


def test_without_old_files_a_full_one_is_begun_anew(tmp_path: Path) -> None:
    size = len(formatted("jsonl", delivered(1, 1)[0]))
    file = FileTarget(str(tmp_path / "out"), rotate_bytes=size * 2, keep=0)
    state: Any = {}
    for n in (1, 3):
        sent = write(file, state, delivered(n, 2))
        assert sent.count == 2
        state = sent.state
    with (tmp_path / "out").open() as reader:
        assert write(file, state, delivered(5, 2)).count == 2
        # Who reads the old one reads it to its end.
        assert [json.loads(line)["n"] for line in reader] == [3, 4]
    assert numbered(tmp_path / "out") == [5, 6]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_file_that_cannot_be_written_is_tried_again_for_ever(tmp_path: Path) -> None:
    clock = Clock()
    place = tmp_path / "place"
    with open_mailbox(tmp_path, clock) as mailbox, delivering(mailbox, clock) as worker:
        mailbox.put_channel("file", "file", settings={"path": str(place / "out")})
        mailbox.take([match(0)])
        for attempt in range(1, 15):
            until(tried(mailbox, "file", attempt))
            channel = mailbox.channel("file")
            assert os.strerror(errno.ENOENT) in (channel.last_error or "")
            assert 0 < channel.next_try - clock.now <= 300_000_000
            clock.seconds += 86_400
            worker.poke()
        assert mailbox.dead() == []
        until(lambda: mailbox.channel("file").attempts == 15)
        place.mkdir()
        clock.seconds += 300
        worker.poke()
        until(lambda: mailbox.channel("file").cursor == 1)
        assert numbered(place / "out") == [1]


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    """A limit on the size of files, which a write meets in the middle of a line."""
    program = """
import resource, signal, sys
from broker.delivery.files import write
from broker.delivery.targets import FileTarget
from tests.delivery.test_files import delivered
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = FileTarget(sys.argv[1])
state = write(file, {}, delivered(1, 1)).state
resource.setrlimit(resource.RLIMIT_FSIZE, (state["offset"] + 100, resource.RLIM_INFINITY))
try:
    write(file, state, delivered(2, 1))
except OSError as error:
    print(error.errno)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert open(sys.argv[1], "rb").read().count(b"\\n") == 1
assert open(sys.argv[1], "rb").read().endswith(b"\\n")
write(file, state, delivered(2, 1))
"""
    out = tmp_path / "out"
    result = subprocess.run(
        [sys.executable, "-c", program, str(out)], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{errno.EFBIG}\n"
    assert numbered(out) == [1, 2]


def test_standard_output(tmp_path: Path) -> None:
    program = """
import sys, time
from broker.delivery import DeliverySettings, DeliveryWorker, Mailbox
from tests.delivery.support import match
from tests.waiting import until
with Mailbox(sys.argv[1]) as mailbox:
    mailbox.put_channel("out", "file", settings={"path": "-"})
    worker = DeliveryWorker(mailbox, DeliverySettings())
    worker.start()
    mailbox.take([match(n) for n in range(20)])
    until(lambda: mailbox.channel("out").cursor == 20)
    worker.stop(5)
"""
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "mailbox.sqlite")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert [json.loads(line)["n"] for line in result.stdout.splitlines()] == [*range(1, 21)]


def test_no_way_leads_into_the_state(mailbox: Mailbox, tmp_path: Path) -> None:
    """Neither a directory nor a file that has become a link since the channel was made, nor another
    name of a file of the state."""
    state, free = tmp_path / "state", tmp_path / "free"
    (state / "below").mkdir(parents=True)
    kept = state / "kept.sqlite"
    kept.write_bytes(b"kept\n")
    free.mkdir()
    os.link(kept, free / "other-name")
    (state / "token").write_bytes(b"kept\n")
    (free / "link").symlink_to(state / "token")
    (free / "dangling").symlink_to(state / "newer")
    (free / "folder").symlink_to(state)
    (free / "deep").symlink_to(state / "below")
    said = {
        "other-name": "in the state directory",
        "link": "it is a link",
        "dangling": "it is a link",
        "folder/kept.sqlite": "in the state directory",
        "folder/new": "in the state directory",
        "deep/new": "in the state directory",
        "deep/../newest": "in the state directory",
    }
    with delivering(mailbox, keep_out=state):
        for number, name in enumerate(said):
            path = str(free / name)
            rotating = {"path": path, "rotate_bytes": 1}
            mailbox.put_channel(f"c{number}", "file", settings=rotating)
        mailbox.put_channel("good", "file", settings={"path": str(free / "out")})
        mailbox.take([match(0), match(1)])
        until(at(mailbox, "good", 2))
        for number, reason in enumerate(said.values()):
            channel = f"c{number}"
            until(lambda name=channel: mailbox.channel(name).last_error)  # type: ignore[misc]
            assert reason in (mailbox.channel(channel).last_error or "")
            assert mailbox.channel(channel).cursor == 0
    assert kept.read_bytes() == (state / "token").read_bytes() == b"kept\n"
    assert sorted(each.name for each in state.iterdir()) == ["below", "kept.sqlite", "token"]
    assert list((state / "below").iterdir()) == []
    assert numbered(free / "out") == [1, 2]


def test_two_channels_do_not_share_a_file(mailbox: Mailbox, tmp_path: Path) -> None:
    mailbox.put_channel("one", "file", settings={"path": str(tmp_path / "out")})
    with pytest.raises(ValueError, match="one writes to"):
        mailbox.put_channel("two", "file", settings={"path": str(tmp_path / "." / "out")})
    mailbox.put_channel("one", "file", settings={"path": str(tmp_path / "out"), "format": "xml"})


def test_rotation_of_one_channel_does_not_reach_the_file_of_another(
    mailbox: Mailbox, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")

    def put(name: str, path: str, **more: int) -> None:
        mailbox.put_channel(name, "file", settings={"path": str(tmp_path / path), **more})

    put("one", "there/out", rotate_bytes=300, keep=2)
    for path in ("there/out.1", "link/out.2"):
        with pytest.raises(ValueError, match="rotation"):
            put("two", path)
    for path in ("there/out.0", "there/out.3", "there/out.01", "there/out.1.1", "out.1"):
        put("two", path)
    put("one", "there/out")
    put("two", "there/out.1")
    with pytest.raises(ValueError, match="rotation"):
        put("one", "link/out", rotate_bytes=300)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "path"),
        ({"path": "out", "format": "csv"}, "format"),
        ({"path": "out", "format": ["xml"]}, "format"),
        ({"path": "out", "format": {}}, "format"),
        ({"path": "out", "rotate_bytes": 0}, "rotate_bytes"),
        ({"path": "out", "keep": -1}, "keep"),
        ({"path": "out", "keep": True}, "keep"),
        ({"path": "-", "rotate_bytes": 10}, "rotate"),
        ({"path": "a\0b"}, "NUL"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    mailbox: Mailbox, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        mailbox.put_channel("file", "file", settings=settings)
