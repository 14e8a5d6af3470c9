"""`broker shell`: queries are typed and run over the stored documents at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import xscl
from broker.cli.asking import LocalAsking
from broker.cli.remote.drawing import pattern_picture
from broker.cli.remote.known_streams import KnownStreams, OfService, OfState
from broker.cli.remote.matches import as_match
from broker.cli.remote.options import service_options
from broker.cli.remote.why import Asked, RemoteAsking, asked_of, lines
from broker.cli.remote.words import COMMANDS, Words
from broker.cli.shared import Failed, plural
from broker.pattern.answers import answers
from broker.query.patterns import pattern_query
from broker.text.people import as_text
from broker.text.printable import visible_lines
from broker.why.asked import Asked as TakenApart
from broker.why.model import Budget
from broker.why.picture import picture
from xscl.check.patterns import holds_pattern

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_SHOWN = 5
"""Matches that are shown; the others are counted."""

_HELP = """\
A query ends with ; or an empty line, and runs over the stored documents at once; nothing is
registered.
  .streams [NAME]   the streams, or what documents of one hold
  .why QUERY        why a query, or the subscription of this id, has matched or not
  .explain QUERY    what a query finds
  .quit             or Ctrl-D
Tab completes keywords, functions, streams, paths and values."""


class Shell:
    """Answers what is typed. Raises nothing for what is wrong: that is an answer too."""

    def __init__(self, asked: Asked, streams: KnownStreams) -> None:
        self.asked = asked
        self.streams = streams
        self.words = Words(streams)

    def answer(self, text: str) -> Iterator[str]:
        """The lines of the answer to a query or a command."""
        text = text.strip().rstrip(";").strip()
        self.words.forget()
        try:
            if text.startswith("."):
                yield from self._command(text)
            elif text:
                yield from self._query(text)
        except xscl.XsclError as error:
            yield from (each.render() for each in error.diagnostics)
        except Failed as error:
            yield str(error)

    def _command(self, text: str) -> Iterator[str]:
        name, _, rest = text.partition(" ")
        rest = rest.strip()
        if name == ".streams":
            yield from self._streams(rest)
        elif name == ".why" and rest:
            yield from self._why(rest)
        elif name == ".explain" and rest:
            for query in xscl.check([xscl.parse(rest, "query")]).queries:
                if holds_pattern(query.query):
                    yield from pattern_picture(query)
                    yield f"  answers {answers(pattern_query(query).plan)}"
                else:
                    yield from picture(TakenApart(query))
        elif name == ".help":
            yield _HELP
        elif name in COMMANDS:
            yield f"{name} needs a query"
        else:
            yield f"there is no command {name}; there are: {', '.join(COMMANDS)}"

    def _streams(self, name: str) -> Iterator[str]:
        if not name:
            for each in self.streams.all():
                yield f"  {each['name']}  {plural(each['documents'], 'document')}"
            return
        found = self.streams.get(name, 3)
        if found is None:
            yield f"no document of {name} is stored"
            return
        for path in found["paths"]:
            values = ", ".join([value["value"] for value in path["values"]])
            yield f"  {path['path']}  {path['documents']:,}  {values}".rstrip()

    def _why(self, text: str) -> Iterator[str]:
        if _is_id(text):
            found = self.asked.of_subscription(text, Budget().documents)
        else:
            found = self.asked.of_text(text, "query", Budget().documents)
        for told in found:
            yield from lines(told)

    def _query(self, text: str) -> Iterator[str]:
        """The matches of queries, or why there are none."""
        program = xscl.check([xscl.parse(text, "query")])
        if any(_has_nested(query) for query in program.queries):
            yield from self._why(text)
            return
        found = self.asked.try_out(text)
        matches = found["matches"]
        for match in matches[:_SHOWN]:
            yield as_text(as_match(match)).rstrip("\n")
        if not matches:
            yield from self._why(text)
            return
        more = f"; {_SHOWN} are shown" if len(matches) > _SHOWN else ""
        least = "at least " if found["suspended"] else ""
        documents = plural(found["documents"], "document")
        yield f"{least}{plural(len(matches), 'match', 'matches')} among {documents}{more}"


def _is_id(text: str) -> bool:
    return "/" not in text and " " not in text


def _has_nested(query: xscl.ResolvedQuery) -> bool:
    """Whether a query has another in its FROM, which has no results before it is registered."""
    stack: list[xscl.ast.Pattern] = [query.query.pattern]
    while stack:
        pattern = stack.pop()
        if isinstance(pattern, xscl.ast.Nested):
            return True
        if isinstance(pattern, xscl.ast.Join):
            stack += [pattern.left, pattern.right]
    return False


@click.command()
@service_options
def shell(url: str | None, state: Path | None, token_file: Path | None) -> None:
    """Type queries and see at once what they find among the stored documents, or why nothing.

    With history, completion of streams, paths and values that documents have, and queries of
    several lines. It uses the service that runs on the state directory, or at --url; where none
    runs, the directory itself. Nothing is registered. Statements may also come from standard input.

    \b
    broker shell
    echo "S//item[./title->t]" | broker shell
    """
    with ExitStack() as stack:
        asked = stack.enter_context(asked_of(url, state, token_file))
        session = Shell(asked, _streams_of(asked))
        if sys.stdin.isatty() and sys.stdout.isatty():
            _converse(session)
        else:
            for text in statements(sys.stdin.read()):
                _show(session.answer(text))


def _streams_of(asked: Asked) -> KnownStreams:
    if isinstance(asked, RemoteAsking):
        return OfService(asked.service)
    assert isinstance(asked, LocalAsking)
    from broker.statistics.streams import StreamCatalogue

    return OfState(StreamCatalogue(asked.store))


def _show(answer: Iterator[str]) -> None:
    for line in answer:
        click.echo(visible_lines(line))


def statements(text: str) -> Iterator[str]:
    """The statements of standard input: commands are lines, queries end with ; or an empty line."""
    begun: list[str] = []
    for line in [*text.splitlines(), ""]:
        if not begun and line.lstrip().startswith("."):
            yield line
            continue
        begun.append(line)
        if is_complete("\n".join(begun)):
            yield "\n".join(begun)
            begun.clear()


def is_complete(text: str) -> bool:
    """Whether Enter ends a statement here, and does not begin another line of it."""
    bare = text.strip()
    return not bare or bare.startswith(".") or bare.endswith(";") or text.endswith("\n")


# -- a terminal ------------------------------------------------------------------------------


def _converse(session: Shell) -> None:
    click.echo("Type a query, or .help; Ctrl-D ends.")
    prompting = prompt_session(session.words, history_file())
    while True:
        try:
            text = prompting.prompt("xscl> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip() in (".quit", ".exit"):
            return
        with interruptible():
            _show(session.answer(text))


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends an answer, and not the shell."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped")


def history_file() -> Path | None:
    """Where what was typed is kept, as the XDG says; None if it cannot be."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    path = Path(home).expanduser() / "xml-stream-broker" / "shell-history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return None
    return path


def prompt_session(words: Words, history: Path | None, **options: Any) -> PromptSession[str]:
    """A prompt with history, completion, and lines until a statement is complete."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import FileHistory, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    class Completing(Completer):
        def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
            del event
            for word in words.complete(document.text_before_cursor):
                yield Completion(word.text, -word.begun, display_meta=word.note)

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    bind: Callable[..., PromptSession[str]] = PromptSession
    return bind(
        multiline=True,
        prompt_continuation="  ...> ",
        completer=Completing(),
        complete_in_thread=True,
        complete_while_typing=False,
        key_bindings=keys,
        history=InMemoryHistory() if history is None else FileHistory(str(history)),
        **options,
    )
