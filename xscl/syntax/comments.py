"""Formatting with comments: each comment stays at the token at which it was written.

In: a parsed file. Out: its canonical text with its comments. A comment on a line of its own is
printed above the token that followed it, a comment at the end of a line behind the token before it.
The tokens of the original and of the canonical text are aligned, one statement at a time; a comment
at a token that the canonical text lacks goes to the nearest token that it has. A comment of XML for
which that is no place within its element is written above the statement. Formatting is idempotent.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import dropwhile

from xscl import ast
from xscl.errors import XsclError
from xscl.syntax.lexer import NAME, NamePattern
from xscl.syntax.parser import parse
from xscl.syntax.printer import format_file

_LAYOUT = re.compile(r"[ \t\r\n]+")
_COMMENT = re.compile(r"--[^\n]*")
_TOKEN = NamePattern(
    rf"{NAME}'*|[0-9]+(?:\.[0-9]*)?|\.[0-9]+|'[^']*'|\"[^\"]*\"|->|//|::|<=|>=|!=|\.\.|.", re.DOTALL
)
_IN_ELEMENT = re.compile(
    r"(?P<comment><!--.*?-->)|(?P<text><!\[CDATA\[.*?\]\]>|\{\{|\}\}|[^<>{}\"']+|[<>}\"'])|(?P<open>\{)",
    re.DOTALL,
)
_EMPTY_LINE = re.compile(r"[ \t\r]*\n[ \t\r]*\n")
_SAME = {"AS": "->"}
_STEP = 4
"""Blanks by which the rest of a line is indented after a comment breaks it."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A token's place, and the key by which tokens of both texts are compared."""

    start: int
    end: int
    key: str


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment. `before` is the index of the token that follows it. `alone`: on a line of its own.
    `empty_above`, `empty_below`: an empty line is above it, or below it. An `inline` comment is one
    of XML, which does not end with its line."""

    text: str
    before: int
    alone: bool
    empty_above: bool
    empty_below: bool
    inline: bool


@dataclass(slots=True)
class _Statement:
    """The tokens of a statement, its `;` included, and its comments."""

    tokens: list[_Token] = field(default_factory=list)
    comments: list[_Comment] = field(default_factory=list)


def format_with_comments(file: ast.File) -> str:
    """The file in canonical form, with the comments of its text; `file` is a result of `parse`."""
    canonical = format_file(file)
    old_statements = _statements(file)
    if not any(statement.comments for statement in old_statements):
        return canonical
    new_statements = _statements(parse(canonical))
    pieces: list[str] = []
    at = 0
    for old, new in zip(old_statements, [*new_statements, _Statement()], strict=False):
        end = new.tokens[-1].end if new.tokens else len(canonical)
        piece = _with_comments(canonical, at, end, old, new)
        if any(each.inline for each in old.comments) and not _says(piece, canonical[at:end]):
            piece = _with_comments(canonical, at, end, _lifted(old), new)
        pieces.append(piece)
        at = end
    return "".join(pieces).removeprefix("\n").rstrip() + "\n"


def _says(piece: str, canonical: str) -> bool:
    """Whether a statement with its comments is read as the canonical one."""
    try:
        return format_file(parse(piece)).strip() == canonical.strip()
    except XsclError:
        return False


def _lifted(statement: _Statement) -> _Statement:
    """The statement with the comments of XML above it, as comments of lines."""
    lifted = [
        _Comment(f"-- {line.strip()}".rstrip(), 0, True, False, False, False)
        for each in statement.comments
        if each.inline
        for line in each.text.removeprefix("<!--").removesuffix("-->").strip().split("\n")
    ]
    others = [each for each in statement.comments if not each.inline]
    first = [each for each in others if each.before == 0]
    return _Statement(statement.tokens, [*first, *lifted, *[o for o in others if o.before]])


# -- reading -----------------------------------------------------------------------------------


def _statements(file: ast.File) -> list[_Statement]:
    """The statements of a text, and an empty last one that holds the comments behind them."""
    text = file.span.source.text
    ends = sorted(element.span.end for element in _elements(file))
    starts = {element.span.start for element in _elements(file)}
    statements = [_Statement()]
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        if at in starts:
            at = _read_element(text, at, ends[bisect_left(ends, at)], statements[-1])
        else:
            at = _read(text, at, statements[-1])
            if statements[-1].tokens and statements[-1].tokens[-1].key == ";":
                at = _read_trailing(text, at, statements[-1])
                statements.append(_Statement())
    last = statements[-1]
    if last.tokens:
        # Without a `;`, the comments below the last statement were read into it.
        below = [c for c in last.comments if c.before == len(last.tokens)]
        below = list(dropwhile(lambda comment: not comment.alone, below))
        last.comments = [comment for comment in last.comments if comment not in below]
        statements.append(_Statement(comments=[replace(comment, before=0) for comment in below]))
    return statements


def _read(text: str, at: int, into: _Statement) -> int:
    """Read layout, a comment or a token at `at`; returns where it ends."""
    if layout := _LAYOUT.match(text, at):
        return layout.end()
    if comment := _COMMENT.match(text, at):
        into.comments.append(_comment(text, at, comment[0].rstrip(), into))
        return comment.end()
    token = _TOKEN.of(text).match(text, at)
    assert token is not None
    word = token[0]
    if word == ";" and not into.tokens:
        return token.end()  # an empty statement
    # Strings of either quotation mark have one key, which differs from that of a word or a `;`.
    key = f"'{word[1:-1]}" if word[0] in "'\"" and len(word) > 1 else word.upper()
    into.tokens.append(_Token(at, token.end(), _SAME.get(key, key)))
    return token.end()


def _read_trailing(text: str, at: int, into: _Statement) -> int:
    """Read a comment on the line on which a statement ends: it belongs to that statement."""
    blanks = re.compile(r"[ \t]*").match(text, at)
    if blanks and _COMMENT.match(text, blanks.end()):
        return _read(text, blanks.end(), into)
    return at


def _read_element(text: str, at: int, end: int, into: _Statement) -> int:
    """Read a constructor, whose text consists of tokens between braces only."""
    while at < end:
        found = _IN_ELEMENT.match(text, at)
        assert found is not None
        if found.lastgroup == "comment":
            into.comments.append(_comment(text, at, found[0], into, inline=True))
        else:
            into.tokens.append(_Token(at, found.end(), found[0].strip()))
        at = found.end()
        while found.lastgroup == "open" and at < end:
            at = _read(text, at, into)
            if into.tokens[-1].key == "}":
                break
    return at


def _comment(
    text: str, at: int, comment: str, into: _Statement, *, inline: bool = False
) -> _Comment:
    above, _, line = text[:at].removeprefix("\ufeff").rpartition("\n")
    alone = not line.strip()
    empty_above = alone and not above.rpartition("\n")[2].strip() and bool(above)
    empty_below = _EMPTY_LINE.match(text, at + len(comment)) is not None
    before = len(into.tokens)
    return _Comment(comment, before, alone and not inline, empty_above, empty_below, inline)


def _elements(file: ast.File) -> Iterator[ast.Element]:
    """The constructors of the file, those of nested queries included, outermost elements only."""
    stack: list[ast.Query | ast.Pattern] = [
        statement for statement in file.statements if isinstance(statement, ast.Query)
    ]
    while stack:
        part = stack.pop()
        match part:
            case ast.Query():
                if isinstance(part.select, ast.Element):
                    yield part.select
                stack.append(part.pattern)
            case ast.Nested():
                stack.append(part.query)
            case ast.Join() | ast.Fold():
                stack += [part.left, part.right]
            case ast.Alternatives():
                stack += part.branches
            case ast.Negation() | ast.Group() | ast.Parenthesis():
                stack.append(part.pattern)


# -- writing -----------------------------------------------------------------------------------


def _with_comments(canonical: str, at: int, end: int, old: _Statement, new: _Statement) -> str:
    """A canonical statement, from `at` to `end`, with the comments of the original one."""
    if not old.comments:
        return canonical[at:end]
    above, behind = _place_comments(old, new)
    pieces: list[str] = []
    done = at
    for number, token in enumerate([*new.tokens, _Token(end, end, "")]):
        comments = above.get(number, [])
        if comments:
            pieces.append(canonical[done : token.start].rstrip(" "))
            done = token.start
            pieces += _above(comments, canonical, at, token, first=number == 0)
        if trailing := behind.get(number):
            pieces.append(canonical[done : token.end])
            done = token.end
            pieces.append(trailing.text if trailing.inline else f" {trailing.text}")
            more = canonical[done : done + 1]
            if not trailing.inline and more not in ("", "\n"):
                done += more == " "
                pieces.append("\n" + _indent(canonical, token.start, deeper=True))
    pieces.append(canonical[done:end])
    return "".join(pieces)


def _above(
    comments: Sequence[_Comment], canonical: str, at: int, token: _Token, *, first: bool
) -> Iterator[str]:
    """Comments above a token, which begins a new line after them."""
    line = canonical.rfind("\n", 0, token.start) + 1
    begins = first or not canonical[line : token.start].strip()
    # Behind the end of a statement a comment is read as one above the next statement.
    indent = _indent(canonical, token.start, deeper=not begins) if token.key else ""
    if not begins:
        yield "\n" + indent
    elif not first:
        yield indent
    for number, comment in enumerate(comments):
        if comment.inline:
            yield comment.text
            continue
        above = "\n" if first and comment.empty_above and at and not number else ""
        below = "\n" if first and comment.empty_below else ""
        yield f"{above}{comment.text}\n{below}{indent}"


def _indent(canonical: str, at: int, *, deeper: bool) -> str:
    """The indent of the line at `at`; with `deeper`, that of its continuation."""
    start = canonical.rfind("\n", 0, at) + 1
    line = canonical[start:at]
    blanks = len(line) - len(line.lstrip(" "))
    return " " * (blanks + _STEP * deeper)


def _place_comments(
    old: _Statement, new: _Statement
) -> tuple[dict[int, list[_Comment]], dict[int, _Comment]]:
    """The comments above each canonical token, and the one behind it, by the token's index."""
    aligned = _align(old.tokens, new.tokens)
    above: defaultdict[int, list[_Comment]] = defaultdict(list)
    behind: dict[int, _Comment] = {}
    for comment in old.comments:
        before, last = aligned[comment.before], comment.before == len(old.tokens)
        if comment.alone or comment.before == 0:
            above[before].append(comment)
            continue
        # A comment at the end of a statement stays on its last line, with or without a `;`.
        ends = last or old.tokens[comment.before].key == ";"
        token = len(new.tokens) - 1 if ends and not comment.inline else aligned[comment.before - 1]
        if token in behind:
            above[token + 1].append(comment)
        else:
            behind[token] = comment
    return above, behind


def _align(old: Sequence[_Token], new: Sequence[_Token]) -> list[int]:
    """For each original token, and for the end, the index of the canonical token equal to it, else
    of the one that follows."""
    matcher = SequenceMatcher(None, [t.key for t in old], [t.key for t in new], autojunk=False)
    aligned = [-1] * len(old)
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            aligned[block.a + step] = block.b + step
    following = len(new)
    for number in range(len(old) - 1, -1, -1):
        following = aligned[number] if aligned[number] >= 0 else following
        aligned[number] = following
    return [*aligned, len(new)]
