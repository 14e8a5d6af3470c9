"""`broker new`: asks what somebody wants, and writes the query."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

import xscl
from broker import advice
from broker.cli.remote.known_streams import KnownStreams, known_streams, look_into
from broker.cli.shared import Failed, StateType, Wrong, console
from broker.drafts import DRAFTS, Draft, Question, WrongAnswer
from broker.text.printable import visible_lines
from xscl.syntax.nearest import did_you_mean

_SHOWN = 20
"""Streams or paths that a question names."""

_LIST = "\n".join(f"  {draft.name:<12} {draft.finds}" for draft in DRAFTS.values())


@click.command(
    epilog="\b\nKINDS\n" + _LIST,
)
@click.argument("kind", required=False, type=click.Choice([*DRAFTS]))
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="An answer, which is then not asked for; may be repeated.",
)
@click.option("--id", metavar="NAME", help="The name of the query; that of its kind by default.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; - for standard output.",
)
@click.option("--force", is_flag=True, help="Replace the file if it is there already.")
@click.option("--yes", "-y", is_flag=True, help="Ask nothing: what is not given has its default.")
@click.option(
    "--state",
    type=StateType(),
    help="State directory, of a service or of broker run: name the streams and paths that its"
    " documents have, and say what none of them has.",
)
@click.option("--url", help="The same for the service at this address.")
def new(
    kind: str | None,
    given: tuple[str, ...],
    id: str | None,
    output: Path | None,
    force: bool,
    yes: bool,
    state: Path | None,
    url: str | None,
) -> None:
    """Write a query for something that is often wanted, of KIND; asks for what it needs to know.

    On a terminal it asks for what is not given; elsewhere, and with --yes, what is not given has
    its default, and the query goes to standard output.

    \b
    broker new
    broker new same-link
    broker new no-reply --set author="Mara Lindqvist" --set within="2 days" -o unanswered.xscl
    broker new keyword --set keyword=tide | broker check -
    """
    asks = sys.stdin.isatty() and not yes
    with _streams(url, state) as streams:
        if kind is None:
            if not asks:
                raise Wrong(f"which KIND of query? There are:\n{_LIST}")
            draft = _asked_draft()
        else:
            draft = DRAFTS[kind]
        answers = _given(draft, given)
        if asks:
            _ask(draft, answers, streams)
            if id is None:
                id = click.prompt("name of the query", draft.name, value_proc=_name, err=True)
        id = _name(id or draft.name)
        try:
            text = draft.text(id, answers)
        except WrongAnswer as error:
            raise Wrong(
                f"{error}; answer with --set {str(error).split()[0].rstrip(':')}=…"
            ) from None
        if output is None and asks and sys.stdout.isatty():
            output, force = _asked_file(f"{id}.xscl", force)
        if output is None or str(output) == "-":
            click.echo(text, nl=False)
        else:
            _write(output, text, force)
            console.print(f"{output}: {draft.finds}")
        if streams is not None:
            _warn(text, str(output or "query"), streams)
    if output is not None and str(output) != "-":
        console.print(f"  look at it: broker explain {output}; add it: broker subscribe {output}")


@contextmanager
def _streams(url: str | None, state: Path | None) -> Iterator[KnownStreams | None]:
    """What is known of streams, if somebody says where."""
    if url is None and state is None:
        yield None
        return
    with known_streams(url, state, None) as found:
        yield found


def _given(kind: Draft, given: tuple[str, ...]) -> dict[str, str]:
    """The answers of the command line. Raises Wrong."""
    names = [question.name for question in kind.questions]
    answers = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or name not in names:
            raise Wrong(f"--set {each}: {kind.name} has the answers {', '.join(names)}")
        answers[name] = value
    return answers


def _name(text: str) -> str:
    if not re.fullmatch(r"[^\W\d][\w.-]*", text):
        raise click.UsageError(f"{text!r} is no name: one word of letters, digits, -, _ and dots")
    return text


# -- questions on a terminal -------------------------------------------------------------------


def _asked_draft() -> Draft:
    click.echo("What do you want to find?", err=True)
    for number, draft in enumerate(DRAFTS.values(), 1):
        click.echo(f"  {number:>2}  {draft.name:<12} {draft.finds}", err=True)
    found: Draft = click.prompt("number or name", value_proc=_draft, err=True)
    return found


def _draft(text: str) -> Draft:
    names = [*DRAFTS]
    name = text.strip()
    if name.isdecimal() and 1 <= int(name) <= len(names):
        name = names[int(name) - 1]
    if name not in DRAFTS:
        near = did_you_mean(name, names) or f"there are: {', '.join(names)}"
        raise click.UsageError(f"{text!r} is none of them; {near}")
    return DRAFTS[name]


def _ask(kind: Draft, answers: dict[str, str], streams: KnownStreams | None) -> None:
    """Ask for the answers that are not given."""
    for question in kind.questions:
        if question.name in answers:
            continue
        if streams is not None:
            _show_known(question, answers, streams)
        answers[question.name] = click.prompt(
            question.asks,
            question.default,
            value_proc=_reader(question),
            show_default=bool(question.default),
            err=True,
        )


def _reader(question: Question) -> Callable[[str], str]:
    def read(text: str) -> str:
        try:
            return question.read(text)
        except WrongAnswer as error:
            raise click.UsageError(str(error)) from None

    return read


def _show_known(question: Question, answers: Mapping[str, str], streams: KnownStreams) -> None:
    """Name the streams or the paths that documents have, where a question is about them."""
    if question.kind in ("stream", "block"):
        found = [each["name"] for each in streams.all() if not each["name"].startswith("~")]
    elif question.kind == "path":
        block = answers["second" if question.name == "value2" else "first"]
        found = _paths(block, streams)
    else:
        return
    if found:
        more = ", …" if len(found) > _SHOWN else ""
        click.echo(visible_lines(f"  there are: {', '.join(found[:_SHOWN])}{more}"), err=True)


def _paths(block: str, streams: KnownStreams) -> list[str]:
    """The paths below the documents of a block such as Orders//order."""
    stream, _, steps = block.partition("[")[0].partition("/")
    known = streams.get(stream, 0)
    above = f"/{steps.rpartition('/')[2]}/"
    paths = [] if known is None else [each["path"] for each in known["paths"]]
    return [f"./{path.partition(above)[2]}" for path in paths if above in path]


def _asked_file(default: str, force: bool) -> tuple[Path, bool]:
    """The file, and whether it may be replaced."""
    while True:
        path = Path(click.prompt("file to write, or - to show it", default, err=True))
        if force or str(path) == "-" or not path.exists():
            return path, force
        if click.confirm(f"{path} is there already: replace it?", err=True):
            return path, True


# -- the file ----------------------------------------------------------------------------------


def _write(path: Path, text: str, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Failed(
            f"{path} is there already: name another file with -o, or use --force"
        ) from None
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from None


def _warn(text: str, name: str, streams: KnownStreams) -> None:
    """What may not be meant so, by the documents that are there."""
    program = xscl.check([xscl.parse(text, name)])
    for warning in advice.warnings(program, look_into(streams)):
        console.print(warning.render())
