"""Runs every command of the pages, typed into a terminal and through a pipe.

The pages are gone through from top to bottom, with one service, in one directory. What a page means
but a test has not (a host of the network, a directory of the system) is put in its place. `ENDS`
says with which exit code and which last line each command ends; one that is not in it fails the
test. What goes on until it is stopped is stopped by Ctrl-C on a terminal, and elsewhere by SIGTERM.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.cli.commands import SECTIONS
from tests.cli.serving import answering, environment
from tests.cli.terminal import CTRL_C, Terminal, terminal
from tests.command import run
from tests.docs.markdown import PAGES, ROOT, Fence, parts
from tests.docs.running import files_of, read_documents
from tests.feeds.data import atom, rss
from tests.feeds.site import Site
from tests.waiting import PATIENCE

SAMPLES = ROOT / "feeds" / "samples"
DEMO = SAMPLES / "demo.xscl"
BROKER = ".venv/bin/broker"

ENDS: dict[str, tuple[int, str]] = {
    "check followed.xscl": (0, "1 query, no errors"),
    "check alarm.xscl": (0, "1 query, no errors"),
    'new same-link --set within="1 day" --yes': (0, r" +S//item\[./item_url->link2\].*"),
    "subscribe alarm.xscl": (0, "alarm: (counts from document .* on|was there already, and goes on)"),
    "why reviewed.xscl --documents reviewed.jsonl": (0, " +the closest are 9 days apart.*"),
    "why reviewed.xscl --documents reviewed.jsonl --document b1 --document g1": (
        0,
        r"    NO   within 2 days  \(9 days apart\)",
    ),
    "why announced.xscl --documents reviewed.jsonl": (0, "  It answers when the allowed .*"),
    "why alarm": (0, "  It answers as soon as time is beyond its last document.*"),
    "subscribe followed.xscl --webhook https://example.org/hook": (
        0,
        "  what is signed with: broker channels show same-page.webhook --secrets",
    ),
    "feeds add https://example.org/feed.xml --state broker-state": (
        0,
        "already there: https://example.org/feed.xml|what feeds show now is no news, .*",
    ),
    "publish S story.xml": (0, "1 document accepted"),
    "status": (0, "disk           .* free"),
    "subscribe pair.xscl": (0, "pair: (counts from document .* on|was there already, and goes on)"),
    "list": (0, r"same-page +active .*"),
    "channels add desk --subscription pair --webhook https://example.org/hook": (
        0,
        "  what it signs with: broker channels show desk --secrets",
    ),
    "channels add phone --webhook https://ntfy.sh/my-topic --form ntfy": (
        0,
        "  what it signs with: broker channels show phone --secrets",
    ),
    "channels add room --webhook https://hooks.slack.com/services/T/B/X --form slack --template"
    " story.txt": (0, "  what it signs with: broker channels show room --secrets"),
    "channels show desk --secrets": (0, "}"),
    "channels test desk": (0, "desk: arrived in .* s"),
    "publish S book.xml post.xml": (0, "2 documents accepted"),
    "matches pair": (0, r"\d match(es)?; what comes later: --after \d+"),
    "matches pair --format csv": (0, r"\d match(es)?; what comes later: --after \d+"),
    "channels list --format csv": (0, "same-page.webhook,.*"),
    "channels list": (0, "same-page.webhook .*"),
    "backup /var/backups/broker/monday": (0, r".*monday.*: . files, .*, as of .{10}T\d\d:\d\d:\d\dZ"),
    "restore /var/backups/broker/monday --state broker-state": (
        0,
        ".*: as of .*; start it with broker serve --state .*",
    ),
    "feeds check --items https://example.org/advisories.rss": (0, "</item>"),
    "check fixed.xscl": (0, "1 query, no errors"),
    "subscribe fixed.xscl --webhook https://example.org/hook": (
        0,
        "  what is signed with: broker channels show fixed.webhook --secrets",
    ),
    "channels add fixed-log --subscription fixed --file fixed.jsonl": (
        0,
        "fixed-log: file .*fixed.jsonl, for fixed",
    ),
    "feeds add https://example.org/advisories.rss https://example.org/kelp.atom"
    ' --since "14 days" --state broker-state': (0, "added: .*/kelp.atom"),
    "feeds list --state broker-state": (0, ".*https://example.org/feed.xml.*"),
    "matches fixed": (0, r"\d match(es)?(; what comes later: --after \d+)?"),
    "check differs.xscl": (0, "1 query, no errors"),
    "publish S story.xml --key night-1": (0, "1 document accepted"),
    # What stands in tables, and in the text.
    "feeds add FEED --since INFINITY --history --state more": (0, r".*: \d+ items?, 0 older pages"),
    "feeds list --state more": (0, ".* FEED( +Gannet)?"),
    "feeds pause FEED --state more": (0, "paused: FEED"),
    "feeds resume FEED --state more": (0, "resumed: FEED"),
    'feeds edit FEED --interval "1 h" --state more': (0, ".*FEED.*"),
    "feeds refresh FEED --state more": (0, ".*FEED.*"),
    "feeds check --state more": (0, "ok .* FEED"),
    "feeds export --state more": (0, "</opml>"),
    "feeds import subscriptions.opml --state more": (0, r"subscriptions.opml: 17 feeds, \d+ of them new|what feeds show now is no news, .*"),
    "feeds discover SITE": (0, "  News: rss20, 1 item"),
    "feeds remove FEED --state more": (0, "removed: FEED"),
    "explain followed.xscl": (0, ".*"),
    "fmt followed.xscl": (0, ".*;"),
    "config check broker.toml": (0, ".*"),
    "config show broker.toml": (0, ".*"),
    "open": (0, "http://127.0.0.1:.*#.*|open this address .*|opened http://127.0.0.1:.* in a browser"),
    "open --print": (0, "http://127.0.0.1:.*#.*|open this address .*"),
    "streams": (0, ".*"),
    "suggest S": (0, ".*"),
    "tokens add importer --publish S --documents 50": (0, "broker_.*|  clients send this; .*"),
    "tokens add desk --read S --subscriptions 100": (0, "broker_.*|  clients send this; .*"),
    "tokens list": (0, "importer .* publish:S .*|desk .*"),
    "tokens log": (0, r"\d+ .* addToken +desk"),
    "events": (0, "no events"),
    "deadletters list documents": (0, "no .*"),
    "deadletters list deliveries": (0, "no .*"),
    "completion bash": (0, "complete -F _broker broker"),
    "pause pair": (0, "pair: paused.*"),
    "resume pair": (0, "pair: active.*"),
    "channels pause desk": (0, "desk: paused"),
    "channels resume desk": (0, "desk: goes on"),
    "channels reset desk --after 0": (0, "desk: begins again behind match 0"),
    "channels remove desk": (0, "desk: removed"),
    "unsubscribe pair --pending drop": (0, "pair: unsubscribed"),
    "replay ARCHIVE followed.xscl --format text": (
        0,
        "nothing matched; this tells why: the same with --state DIR, then broker why .*",
    ),
}  # fmt: skip
"""By command: the exit code, and a pattern that the last line fulfils."""

GOES_ON = {
    "run followed.xscl --feeds subscriptions.opml --state my-state --format text": (
        ["same-page"],
        0,
        r"\d+ documents, \d+ matches in .* s",
    ),
    "tail": (["following all subscriptions; stop with Ctrl-C"], 130, ".*broker: interrupted"),
    "serve": (["serving on http"], 0, ".*"),
}
"""By command that ends when it is told to: what it says before, its exit code, and its last
line."""

TO_ITS_END = {
    "run differs.xscl --documents ubl --timestamp //IssueDate --once --format xml": (
        [">10</cbc:Amount></Line></Dispute>"],
        0,
        "2 documents, 1 match in .* s",
    ),
}
"""By command that takes long: what it says, its exit code, and its last line; on a terminal only."""

FEEDS = {
    "/": rss("<guid>1</guid><title>1</title>"),
    "/advisories.rss": rss("<guid>CVE-2026-0114</guid>", channel="<title>Advisories</title>"),
    "/kelp.atom": atom("<title>kelp 4.2.1</title>", feed="<title>Release notes from kelp</title>"),
}

NOT_RUN = ("pip install", "podman", "pip wheel", "broker cluster", "--shards")
"""Words of what is not run here. The check of a cluster, and a run in its shards, are run in
`tests/cluster`, with a master and workers that are started without the command."""


def lines(page: Path) -> Iterator[str]:
    """The commands of a page, and what it has a shell do."""
    for part in parts(page):
        if isinstance(part, Fence) and part.language == "console":
            for said in re.split(r"(?m)^\$ ", part.text)[1:]:
                yield said.partition("\n")[0]
        elif isinstance(part, Fence) and part.language == "sh":
            yield from part.text.splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as a reader has it who has followed the pages."""
    path = tmp_path_factory.mktemp("pages")
    shutil.copytree(SAMPLES, path, dirs_exist_ok=True)
    (path / ".venv").symlink_to(sys.prefix)
    for page in PAGES:
        for name, text in files_of(page).items():
            (path / name).write_text(text, encoding="utf-8")
        for part in parts(page):
            if isinstance(part, Fence) and part.language == "xml":
                for document in read_documents(part.text):
                    if document.id.endswith(".xml"):
                        (path / "ubl").mkdir(exist_ok=True)
                        (path / "ubl" / document.id).write_text(str(document.xml))
    (path / "story.txt").write_text("$headline: $link\n")
    (path / "story.xml").write_text("<item><title>One</title></item>")
    (path / "broker.toml").write_text("[server]\nport = 8321\n")
    (path / "archive" / "f").mkdir(parents=True)
    for at in (1, 2):
        item = f"<guid>{at}</guid><title>{at}</title><link>http://a.example/{at}</link>"
        (path / "archive" / "f" / f"2021071{at}T100000Z_x.xml").write_bytes(rss(item))
    return path


Typed = Callable[[str, str], tuple[int, list[str]]]


def on_terminal(line: str, place: Path) -> tuple[int, list[str]]:
    state = "state-on_terminal"
    with terminal(shlex.split(line)[1:], cwd=place, columns=300, BROKER_STATE=state) as started:
        ended = started.ended()
        assert not started.cursor_is_hidden
    return ended.code, ended.lines


def through_pipes(line: str, place: Path) -> tuple[int, list[str]]:
    result = run(
        shlex.split(line)[1:],
        cwd=place,
        env=environment(state="state-through_pipes"),
        timeout=PATIENCE,
    )
    return result.returncode, (result.stdout + result.stderr).splitlines()


def test_every_command_is_here() -> None:
    page_lines = {line for page in PAGES for line in lines(page)}
    commands = {line.removeprefix(f"{BROKER} ") for line in page_lines if line.startswith(BROKER)}
    commands = {c for c in commands if not any(word in f"broker {c}" for word in NOT_RUN)}
    assert commands <= ENDS.keys() | GOES_ON.keys() | TO_ITS_END.keys()
    named = {f"feeds {name}" for name in re.findall(r"`broker feeds (\w+)", _text())}
    named |= {f"channels {name}" for name in re.findall(r"`broker channels (\w+)", _text())}
    named |= {name for section in SECTIONS.values() for name in section}
    # The demo: tests/cli/test_terminal.py; the shell: tests/cli/test_shell.py.
    run_here = [*ENDS, *GOES_ON, "demo", "shell", "cluster"]
    assert [name for name in sorted(named) if not any(c.startswith(name) for c in run_here)] == []


def _text() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize("way", [on_terminal, through_pipes], ids=["terminal", "pipe"])
def test_the_pages(way: Callable[[str, Path], tuple[int, list[str]]], place: Path) -> None:
    state = f"state-{way.__name__}"
    settings = f"env BROKER_STATE={state} BROKER_SERVER__PORT=0 BROKER_DELIVERY__ALLOW_PRIVATE=true"
    told = [line for page in PAGES for line in lines(page)]
    told += [f"{BROKER} {line}" for line in ENDS if f"{BROKER} {line}" not in told]
    with (
        answering(lambda _: (204, {}, b"")) as (hook, _),
        Site(FEEDS) as site,
        terminal(f"{settings} {BROKER} serve", cwd=place, columns=200) as service,
    ):
        service.until(*GOES_ON["serve"][0])

        def here(text: str) -> str:
            for original, replacement in {
                "https://example.org/hook": hook,
                "https://example.org/advisories.rss": site.url("/advisories.rss"),
                "https://example.org/kelp.atom": f"{site.url('/kelp.atom')} --allow-private",
                "/var/backups/broker/monday": f"monday-{way.__name__}",
                "monday --state broker-state": f"monday --state again-{way.__name__}",
                "broker-state": state,
                "FEED": (SAMPLES / "gannet.rss").as_uri(),
                "SITE": site.url("/"),
                "ARCHIVE": "archive",
                "--state more": f"--state more-{way.__name__}",
            }.items():
                text = text.replace(original, replacement)
            return text

        done: set[str] = set()
        for line in told:
            command = line.removeprefix(f"{BROKER} ")
            elsewhere = command in GOES_ON or command in TO_ITS_END
            if line in done or elsewhere or any(word in line for word in NOT_RUN):
                continue
            done.add(line)
            if not line.startswith(BROKER):
                _shell(here(line), place)
                continue
            restored = f" --state again-{way.__name__}" if command.startswith("restore") else ""
            shown = here(line.replace(" --state broker-state", restored) if restored else line)
            code, last = ENDS[command]
            found, output = way(shown, place)
            assert found == code, (shown, output)
            pattern = here(re.escape(last) if last.startswith("}") else last)
            assert re.fullmatch(pattern, (output or [""])[-1].rstrip()), (shown, output)
            assert "Traceback" not in "\n".join(output)
        _tail(f"{settings} {BROKER} tail", place)
        service.type(CTRL_C)
        ended = service.ended()
        assert (ended.code, "Traceback" in ended.text) == (0, False), ended.text


def _shell(line: str, place: Path) -> None:
    """What a page has a shell do beside; the address of its service is another one here."""
    if "curl" not in line and "-m tests" not in line:
        with terminal(line, cwd=place) as started:
            assert started.ended().code == 0, line


def _tail(line: str, place: Path) -> None:
    says, code, last = GOES_ON["tail"]
    with terminal(line, cwd=place) as tail:
        _stopped(tail, says, code, last)


def _stopped(started: Terminal, says: list[str], code: int, last: str) -> None:
    started.until(*says)
    started.type(CTRL_C)
    ended = started.ended()
    assert ended.code == code, ended.text
    assert re.fullmatch(last, ended.lines[-1]), ended.text
    assert not started.cursor_is_hidden


@pytest.mark.spark
def test_feeds_are_run_until_they_are_stopped(place: Path) -> None:
    (line,) = (command for command in GOES_ON if command.startswith("run "))
    says, code, last = GOES_ON[line]
    with terminal(f"{BROKER} {line}", cwd=place, columns=200) as running:
        _stopped(running, says, code, last)


@pytest.mark.spark
@pytest.mark.parametrize("line", TO_ITS_END)
def test_documents_are_run_to_their_end(line: str, place: Path) -> None:
    says, code, last = TO_ITS_END[line]
    with terminal(f"{BROKER} {line}", cwd=place, columns=2000) as running:
        ended = running.ended()
    assert ended.code == code, ended.text
    assert all(words in ended.text for words in says), ended.text
    assert re.fullmatch(last, ended.lines[-1]), ended.text


def test_sigterm_ends_a_service_in_order(place: Path) -> None:
    line = f"exec env BROKER_SERVER__PORT=0 {BROKER} serve --state termed"
    with terminal(line, cwd=place) as service:
        service.until(*GOES_ON["serve"][0])
        service.process.send_signal(signal.SIGTERM)
        assert service.ended().code == 0
