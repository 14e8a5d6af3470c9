"""`broker shell`: what it completes, how lines become statements, what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from broker import Broker, Document
from broker.cli.remote.known_streams import OfState
from broker.cli.remote.shell import history_file, is_complete, prompt_session, statements
from broker.cli.remote.words import Words
from broker.statistics.streams import StreamCatalogue
from tests.cli.serving import run
from tests.cli.terminal import CTRL_D, terminal

BOOK = '<book lang="en"><title>The Tide Clerk</title><author><name>Mara</name></author></book>'
BLOG = "<blog><title>Salt Road</title><tag>sea</tag></blog>"

DOCUMENTS = [Document("b", "S", 0.0, BOOK), Document("g", "Blogs", 1.0, BLOG)]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shell") / "state"
    with Broker(path) as broker:
        broker.subscribe("old: S//book[./titel]")
        broker.process(DOCUMENTS)
    return path


@pytest.fixture(scope="module")
def words() -> Iterator[Words]:
    with Broker() as broker:
        broker.process(DOCUMENTS)
        yield Words(OfState(StreamCatalogue(broker.engine.store)))


@pytest.mark.parametrize(
    ("typed", "some"),
    [
        ("S", ["S//", "SELECT"]),
        ("Bl", ["Blogs//"]),
        ("SELECT t FR", ["FROM"]),
        ("S//book FOLL", ["FOLLOWED BY"]),
        ("S//book[contains(./t", ["title"]),
        ("S//book[cont", ["contains("]),
        ("S/", ["book"]),
        ("S//", ["book", "title", "author", "name"]),
        ("Blogs//", ["blog", "tag"]),
        ("S//book[./", ["title", "author", "@lang"]),
        ("S//book[./@", ["@lang"]),
        ("S//book[./author/", ["name"]),
        ("S//book[.//na", ["name"]),
        ("S//book[./title->t] JOIN {t = u} Blogs//blog[./", ["title", "tag"]),
        ("S//book[./title = 'The", ["The Tide Clerk'"]),
        ("Blogs//blog[./tag = '", ["sea'"]),
        (".st", [".streams"]),
    ],
)
def test_words_that_may_come_next(words: Words, typed: str, some: list[str]) -> None:
    found = [word.text for word in words.complete(typed)]
    assert [word for word in some if word not in found] == []


@pytest.mark.parametrize("typed", ["", "S//book[./title = 'x' and ", "Nowhere//", "S//book[./zz"])
def test_where_nothing_is_known_nothing_is_said(words: Words, typed: str) -> None:
    assert words.complete(typed) == []


def test_children_of_a_step_are_its_own(words: Words) -> None:
    assert {word.text for word in words.complete("S//book[./author/")} == {"name"}
    assert {word.text for word in words.complete("Blogs//blog[./")} == {"title", "tag"}


def test_lines_until_a_statement_is_complete() -> None:
    assert [is_complete(text) for text in ("S//a", "S//a;", "S//a\n", ".help", "")] == [
        *(False, True, True, True, True)
    ]
    assert [text.strip() for text in statements(".help\nS//a\n FOLLOWED BY S//b;\n\nS//c\n")] == [
        *(".help", "S//a\n FOLLOWED BY S//b;", "", "S//c")
    ]


def test_a_terminal_completes_keeps_history_and_takes_several_lines(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    history = history_file()
    assert history is not None
    with create_pipe_input() as typed:
        session = prompt_session(words, history, input=typed, output=DummyOutput())
        typed.send_text("S//book[./title->t]\rFOLLOWED BY S//x;\r")
        assert session.prompt() == "S//book[./title->t]\nFOLLOWED BY S//x;"
        again = prompt_session(words, history, input=typed, output=DummyOutput())
        typed.send_text("\x10\x10\r")  # Ctrl-P: up, into the history
        assert again.prompt() == "S//book[./title->t]\nFOLLOWED BY S//x;"
    assert "FOLLOWED BY" in history.read_text()


def test_on_a_terminal(state: Path, tmp_path: Path) -> None:
    line = ["shell", "--state", str(state)]
    home = str(tmp_path)
    with terminal(line, columns=120, XDG_STATE_HOME=home, PROMPT_TOOLKIT_NO_CPR="1") as typed:
        typed.until("Type a query, or .help; Ctrl-D ends.", "xscl>")
        typed.type("Blogs//blog[./ti\t")
        typed.until("tle")
        typed.type("]\rJOIN Blogs//zz;\r")
        typed.until("the one document of Blogs has no //zz")
        typed.until("0 pairs\r\n\x1b[?2004h")  # the next prompt: now keys are read one by one
        typed.type(CTRL_D)
        ended = typed.ended()
    assert (ended.code, "Traceback" in ended.text) == (0, False), ended.text


def test_queries_run_at_once_and_say_why_they_find_nothing(state: Path) -> None:
    typed = (
        ".streams\n.streams Blogs\nS//book[./title->t];\nBlogs//blog[./tags]\n\n"
        ".why old\n.why\n.explain S//book\n.nothing\nS//book[\n\n"
    )
    answered = run("shell", "--state", state, stdin=typed)
    assert answered.returncode == 0, answered.stderr
    lines = answered.stdout.splitlines()
    for line in (
        "  Blogs  1 document",
        "  /blog/tag  1  sea",
        "1 match among 2 documents",
        "old: the one document of S with //book has no ./titel: write ./title",
        ".why needs a query",
        "there is no command .nothing; there are: .help, .streams, .why, .explain, .quit",
    ):
        assert line in lines
    assert "the one document of Blogs with //blog has no ./tags: write ./tag" in answered.stdout
    assert "finds a book of S (A)" in answered.stdout
    assert "error[syntax]" in answered.stdout
    assert run("shell", "--state", state / "none", stdin="").returncode == 1
