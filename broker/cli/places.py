"""What the paths of `--documents` hold: XML files, JSON lines, or both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from broker.cli.shared import console, plural
from xscl.syntax.lexer import NAME, NamePattern

_NAME = NamePattern(NAME)


@dataclass(frozen=True, slots=True)
class XmlOptions:
    """How XML files become documents: their stream, where each holds its time, and the name of the
    elements that are documents of their own."""

    stream: str = "S"
    timestamp: str | None = None
    split: str | None = None

    @property
    def words(self) -> list[str]:
        """The options of a command that say so."""
        given = {"--timestamp": self.timestamp, "--split": self.split}
        if self.stream != "S":
            given["--stream"] = self.stream
        return [word for name, of in given.items() if of is not None for word in (name, of)]


def _stream(_: click.Context, __: click.Parameter, name: str) -> str:
    if not _NAME.of(name).fullmatch(name):
        raise click.BadParameter(f"{name!r} cannot be the name of a stream")
    return name


def _element_name(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    if name is not None and not _NAME.of(name).fullmatch(name):
        raise click.BadParameter(f"{name!r} is no name of an element")
    return name


stream_option = click.option(
    "--stream",
    default="S",
    show_default=True,
    callback=_stream,
    help="Stream of the .xml files.",
)
split_option = click.option(
    "--split",
    metavar="NAME",
    callback=_element_name,
    help="Make each element NAME of an .xml file a document.",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A path, and whether its JSON lines are read, or its XML files."""

    path: Path
    lines: bool

    @property
    def name(self) -> str:
        """The source of all documents of XML files here."""
        path = self.path.absolute()
        return str(path if path.is_dir() else path.parent)


def places(paths: Sequence[Path]) -> Iterator[Place]:
    """What is read at the paths of --documents; it is said where nothing is there yet."""
    for path in paths:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise click.BadParameter(
                f"{path}: neither a file nor a directory; write what it gives into a file",
                param_hint="--documents",
            )
        lines, files = path.suffix == ".jsonl", path.suffix != ".jsonl"
        if path.is_dir():
            lines = next(path.glob("*.jsonl"), None) is not None
            files = next(path.rglob("*.xml"), None) is not None
            if not lines and not files:
                console.print(f"{path}: no .xml or .jsonl file is there yet")
                lines = files = True
        if lines:
            yield Place(path, lines=True)
        if files:
            yield Place(path, lines=False)


def check_xpath(
    context: click.Context, _parameter: click.Parameter, xpath: str | None
) -> str | None:
    """The callback of --timestamp: a usage error for what is no XPath."""
    if xpath is not None:
        from broker.sources.documents import timestamp_reader

        try:
            timestamp_reader(xpath)
        except ValueError as error:
            raise click.UsageError(f"--{error}", context) from None
    return xpath


def report_places(read: Sequence[Place], xml: XmlOptions, undated: Mapping[str, int]) -> None:
    """Print unexpected properties of what was read. `undated`: by source, the documents that have
    no date of their own."""
    from broker.sources.jsonlines import unfinished

    if xml.timestamp:
        for name in dict.fromkeys(place.name for place in read if not place.lines):
            if undated.get(name):
                console.print(
                    f"{name}: --timestamp {xml.timestamp} finds no date in "
                    f"{plural(undated[name], 'document')}: the time of the file counted instead",
                )
    for place in read:
        for file in unfinished(place.path) if place.lines else ():
            console.print(f"{file}: its last line is torn, and is read once it is whole")
