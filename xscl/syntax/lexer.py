"""Tokens: a cursor over one source, advanced by the parser.

In: a `Source`. Out: the current token, one at a time, and located diagnostics. The parser drives
the cursor because the tokens depend on their context: `a-b` is one name in a block and a
subtraction in a predicate, and a whole location step is read by one regular expression. So the
cursor reads the longest word, and the parser may read the same place again by a narrower rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NoReturn

from xscl.errors import Diagnostic, Source, Span, XsclError
from xscl.syntax import foreign_patterns
from xscl.syntax.foreign import FILTER, PREDICATE, Habits, habit

# XML 1.0 (fifth edition), productions 4 and 4a, without the colon (Namespaces in XML).
_START = (
    "A-Za-z_\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_LETTER = _START + "0-9\u0300-\u036f\u203f\u2040"
XML_NAME = f"[{_START}][{_LETTER}\xb7.-]*+"
# A hyphen that begins `->` or `--` ends the name, so that neither needs a blank before it. The name
# is made possessive by a lookahead, since possessive groups fail in `re` before Python 3.11.5.
NAME = f"[{_START}](?:[{_LETTER}\xb7.]++|-(?![->]))*(?![{_LETTER}\xb7.]|-(?![->]))"
VARIABLE = f"[{_START}][{_LETTER}]*+'*+"
BLANK = r"[ \t\r\n]*+(?:--[^\n]*+[ \t\r\n]*+)*"


class NamePattern:
    """An expression with names in it, compiled when a text first needs it: for texts of ASCII alone
    without the other characters, since `re` takes milliseconds for each class of Unicode's letters.
    """

    _BEYOND_ASCII = re.compile(r"[^\0-\x7f](?:-[^\0-\x7f])?")

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self._pattern = pattern
        self._flags = flags

    def of(self, text: str) -> re.Pattern[str]:
        """The expression as this text needs it."""
        return self._ascii if text.isascii() else self._whole

    @cached_property
    def _ascii(self) -> re.Pattern[str]:
        return re.compile(self._BEYOND_ASCII.sub("", self._pattern), self._flags)

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self._pattern, self._flags)


_TOKEN = NamePattern(
    BLANK
    + rf"""(?:
    ({NAME}'*+)
  | ([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)
  | ('[^']*+'|"[^"]*+")
  | (->|//|::|<=|>=|!=|\.\.|[-/\[\](){{}}.,;:@*+=<>])
  | (\Z)
  | (.)
)""",
    re.VERBOSE | re.DOTALL,
)
_KINDS = (None, "word", "number", "string", None, "end", "bad")

_STEP = rf"""(//?+)? {BLANK}
    (?: (@?+) (?:(?<=@){BLANK})? (?:({NAME}):|(?!{NAME}:)) ({NAME}|\*) (?!{BLANK}(?:\(|::))
      | (\.)(?!\.)
      | (text {BLANK} \( {BLANK} \))
    )"""
#: One location step of a path in a predicate: axis, @, prefix, name, self, text.
STEP = NamePattern(_STEP, re.VERBOSE)
#: The variable that a step binds, if any.
BINDS = rf"(?: {BLANK} (?:->|[Aa][Ss](?![{_LETTER}\xb7.-])) {BLANK} ({VARIABLE}) )?"
#: One location step of a block: the same and the variable it binds.
BINDING_STEP = NamePattern(_STEP + BINDS, re.VERBOSE)

#: A word that is read again as the variable with which it begins.
VARIABLE_WORD = NamePattern(VARIABLE)
_AHEAD = re.compile(BLANK)
_STATEMENT_END = re.compile(r"""(?:[^;'"-]++|'[^'\n]*+'|"[^"\n]*+"|--[^\n]*+|['"-])*""", re.DOTALL)
_NOT_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

MAX_ERRORS = 20


def capped(errors: list[Diagnostic]) -> list[Diagnostic]:
    """The first `MAX_ERRORS` errors; if there are more, a last one says so."""
    if len(errors) <= MAX_ERRORS:
        return errors
    message = f"more than {MAX_ERRORS} errors, the others are not shown"
    last = errors[MAX_ERRORS]
    return [*errors[:MAX_ERRORS], Diagnostic("too-many-errors", message, last.span)]


class Failure(Exception):
    """The construct cannot be parsed further; `final`: there is no use in searching for its end."""

    def __init__(self, diagnostic: Diagnostic, *, final: bool = False) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
        self.final = final


class Cursor:
    """The current token of a source, and the errors found so far.

    `kind` is "word", "number", "string", "end", "bad", or the operator itself; `value` is the
    token as written, `start` and `end` its place, `last` the end of the token before it.
    `in_filter` says whether an expression stands in a filter or in a predicate.
    """

    in_filter = False

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.errors: list[Diagnostic] = []
        self.kind = "end"
        self.value = ""
        self.start = self.last = 0
        self.end = 1 if self.text.startswith("\ufeff") else 0
        self._match = _TOKEN.of(self.text).match

    # -- moving --------------------------------------------------------------------------

    def advance(self) -> None:
        """Read the token that begins where the current one ends."""
        found = self._match(self.text, self.end)
        assert found is not None  # the last alternative takes any character
        index = found.lastindex
        assert index is not None
        self.last = self.end
        self.value = value = found[index]
        self.kind = _KINDS[index] or value
        self.start, self.end = found.span(index)

    def resume(self, end: int) -> None:
        """Continue with the token that begins at `end` or behind it."""
        self.end = end
        self.advance()

    def ahead(self) -> str:
        """The first character after the current token, "" at the end of the text."""
        text, end = self.text, self.end
        character = text[end : end + 1]
        if character and character not in " \t\r\n-":
            return character
        found = _AHEAD.match(text, end)
        assert found is not None
        return text[found.end() : found.end() + 1]

    def accept(self, kind: str) -> bool:
        if self.kind == kind:
            self.advance()
            return True
        return False

    def expect(self, kind: str, hint: str | None = None, habits: Habits | None = None) -> None:
        if self.kind != kind:
            self.unexpected(f'"{kind}"', hint, habits)
        self.advance()

    def keyword(self) -> str:
        """The current word in capitals, "" if the token is no word."""
        return self.value.upper() if self.kind == "word" else ""

    def expect_name(self, what: str, hint: str | None = None, habits: Habits | None = None) -> str:
        """An NCName: a word without primes."""
        if self.kind != "word" or self.value.endswith("'"):
            self.unexpected(what, hint, habits)
        value = self.value
        self.advance()
        return value

    def skip_statement(self) -> None:
        """Recover from an error: go to the next `;` outside strings and comments."""
        found = _STATEMENT_END.match(self.text, self.start)
        assert found is not None
        self.resume(found.end())

    # -- diagnostics ----------------------------------------------------------------------

    def span(self, start: int) -> Span:
        """From `start` to the end of the last token before the current one."""
        return Span(self.source, start, self.last)

    def here(self) -> Span:
        if self.kind == "end":  # behind the last token rather than on an empty line
            return Span(self.source, self.last, self.last)
        return Span(self.source, self.start, self.end)

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        hint: str | None = None,
        also: Iterable[tuple[str, Span]] = (),
    ) -> None:
        """Add an error after which parsing continues at the same place."""
        self.note(Diagnostic(code, message, span, hint, also=tuple(also)))

    def note(self, diagnostic: Diagnostic) -> None:
        self.errors.append(diagnostic)
        if len(self.errors) > MAX_ERRORS:
            raise XsclError(capped(self.errors))

    def fail(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        hint: str | None = None,
        also: Iterable[tuple[str, Span]] = (),
        *,
        final: bool = False,
    ) -> NoReturn:
        raise Failure(
            Diagnostic(code, message, span or self.here(), hint, also=tuple(also)), final=final
        )

    def unexpected(
        self, wanted: str, hint: str | None = None, habits: Habits | None = None
    ) -> NoReturn:
        """Fail at the current token, where `wanted` was expected. `hint` is given if the token is
        not among `habits`, which are by default those of expressions."""
        hint = self.habit(habits) or hint
        if self.kind == "bad":
            self._bad(hint)
        self.fail("syntax", f"expected {wanted}, found {self.found()}", hint=hint)

    def habit(self, habits: Habits | None = None) -> str | None:
        """What to write instead of the current token, if it is a habit from another language."""
        form = foreign_patterns.form(self.text, self.start)
        if form is not None:
            return form
        habits = habits or (FILTER if self.in_filter else PREDICATE)
        return habit(habits, self.text, self.last, self.start, self.value)

    def close(
        self, bracket: str, opened: int, hint: str | None = None, habits: Habits | None = None
    ) -> None:
        """Read the bracket that closes the one at `opened`."""
        if self.kind == bracket:
            self.advance()
            return
        if self.kind in ("end", ";"):
            place = Span(self.source, opened, opened + 1)
            self.fail("syntax", f"this {self.text[opened]} is not closed", place)
        self.unexpected(f'"{bracket}"', hint, habits)

    def found(self) -> str:
        """The current token, as messages name it."""
        if self.kind == "end":
            return "the end of the text"
        if self.kind == "string":
            return "a string"
        shown = self.value if len(self.value) <= 40 else self.value[:37] + "..."
        return f'"{shown}"'

    def _bad(self, hint: str | None) -> NoReturn:
        character = self.value
        if character in "'\"":
            hint = "a string ends at the next mark of the kind it began with, there are no escapes"
            if character == "'" and self.last == self.start and self.text[self.last - 1].isalnum():
                hint = "only variables have primes"
            self.fail("unclosed-string", f"this string has no closing {character}", hint=hint)
        shown = character if character.isprintable() else f"U+{ord(character):04X}"
        self.fail("bad-character", f"the character {shown} has no meaning here", hint=hint)


def not_xml(source: Source) -> Diagnostic | None:
    """An error at the first character that XML does not allow, so that no document can match."""
    found = _NOT_XML.search(source.text)
    if found is None:
        return None
    return Diagnostic(
        "bad-character",
        f"the character U+{ord(found[0]):04X} is not allowed in XML, so it matches nothing",
        Span(source, found.start(), found.end()),
    )
