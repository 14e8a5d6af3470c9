"""XML constructors, `SELECT <pair by="{x2}">{x1/title}</pair> FROM ...`, with XQuery's syntax.

In: a cursor at `<`. Out: an `ast.Element`, the cursor behind it. The text inside an element does
not consist of tokens, so it is read by characters, and the expression parser is called at each `{`.
As in XQuery, text of blanks only between two tags or expressions is layout and dropped, `{{` and
`}}` are braces, a doubled quotation mark is a literal one, and comments are skipped.
"""

from __future__ import annotations

import re
from typing import NoReturn

from xscl import ast
from xscl.errors import Span
from xscl.syntax.lexer import XML_NAME, Failure, NamePattern
from xscl.syntax.parser_expression import ExpressionParser

_QNAME = f"(?:{XML_NAME}:)?{XML_NAME}(?!:)"
_OPEN = NamePattern(f"<({_QNAME})")
_CLOSE = NamePattern(rf"</({_QNAME})[ \t\r\n]*+>")
_ATTRIBUTE = NamePattern(rf"[ \t\r\n]++({_QNAME})[ \t\r\n]*+=[ \t\r\n]*+([\"'])")
_TAG_END = re.compile(r"[ \t\r\n]*+(/?>)")
_CHARACTERS = re.compile(r"[^<>{}&\"']++|[>\"']")
_REFERENCE = re.compile(r"&(?:#([0-9]++)|#x([0-9A-Fa-f]++)|(lt|gt|amp|quot|apos));")
_SKIPPED = re.compile(r"<!--.*?-->", re.DOTALL)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_BLANKS = " \t\r\n"
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


class ConstructorParser(ExpressionParser):
    def constructor(self) -> ast.Element:
        """The element at the cursor. After an error the cursor is where parsing can continue."""
        start = self.start
        try:
            element = self._element(start)
        except Failure:
            self._skip_element(start)
            raise
        self.advance()
        return element

    def _skip_element(self, start: int) -> None:
        """Go behind the element's end tag, or to the end of the text if there is none."""
        name = _OPEN.of(self.text).match(self.text, start)
        end = None
        if name is not None:
            end = re.compile(rf"</{re.escape(name[1])}[ \t\r\n]*>").search(self.text, self.start)
        self.resume(len(self.text) if end is None else end.end())

    def _element(self, start: int) -> ast.Element:
        """The element at `start`; afterwards the cursor's token ends where the element ends."""
        found = _OPEN.of(self.text).match(self.text, start)
        if found is None:
            self._wrong("an element name must follow <", start)
        self.deeper()
        name, at = found[1], found.end()
        attributes: dict[str, tuple[str | ast.Expr, ...]] = {}
        while attribute := _ATTRIBUTE.of(self.text).match(self.text, at):
            key, quote = attribute.groups()
            if key in attributes:
                self._wrong(f"the attribute {key} is given twice", *attribute.span(1))
            attributes[key], at = self._value(attribute.end(), quote)
            if key.partition(":")[0] == "xmlns":
                self._check_declaration(key, attributes[key], attribute.span(1))
        closing = _TAG_END.match(self.text, at)
        if closing is None:
            self._wrong('expected name="value", > or /> in this tag', at, at + 1)
        at = closing.end()
        content: tuple[str | ast.Expr | ast.Element, ...] = ()
        if closing[1] == ">":
            content, at = self._content(at, name, start)
        self._set_cursor(at)
        self.depth -= 1
        return ast.Element(
            name, tuple(attributes.items()), content, span=Span(self.source, start, at)
        )

    def _check_declaration(
        self, key: str, value: tuple[str | ast.Expr, ...], place: tuple[int, int]
    ) -> None:
        """Check the constraints of Namespaces in XML 1.0 on xmlns and xmlns:prefix."""
        if any(not isinstance(part, str) for part in value):
            self._wrong("a namespace declaration cannot hold {...}", *place)
        if key in ("xmlns:xml", "xmlns:xmlns"):
            self._wrong(f"the prefix {key[6:]} is reserved", *place)
        if key != "xmlns" and not value:
            self._wrong("a prefix needs a namespace name that is not empty", *place)

    def _value(self, at: int, quote: str) -> tuple[tuple[str | ast.Expr, ...], int]:
        """The attribute value that begins at `at`, behind its quotation mark, and where it ends."""
        parts: list[str | ast.Expr] = []
        text = ""
        opened = at - 1
        while True:
            character = self.text[at : at + 1]
            if character == quote:
                at += 1
                if self.text[at : at + 1] != quote:
                    break
                text += quote
                at += 1
            elif character == "" or character == "<":
                self._wrong("this attribute value is not closed", opened, opened + 1)
            elif character == "{" and self.text[at + 1 : at + 2] != "{":
                if text:
                    parts.append(text)
                    text = ""
                expression, at = self._enclosed(at)
                parts.append(expression)
            elif character in _BLANKS:
                text += " "
                at += 2 if self.text.startswith("\r\n", at) else 1
            else:
                piece, at = self._piece(at, stop=quote)
                text += piece
        if text:
            parts.append(text)
        return tuple(parts), at

    def _content(
        self, at: int, name: str, opened: int
    ) -> tuple[tuple[str | ast.Expr | ast.Element, ...], int]:
        """The content of the element `name`, and where its end tag ends."""
        parts: list[str | ast.Expr | ast.Element] = []
        text = ""
        layout = True  # whether `text` may be dropped if it is blank

        def flush() -> None:
            nonlocal text, layout
            if text and not (layout and not text.strip(_BLANKS)):
                parts.append(text)
            text, layout = "", True

        while True:
            character = self.text[at : at + 1]
            if character == "":
                self._wrong(f"<{name}> has no end tag", opened, opened + 1 + len(name))
            if character == "<":
                if skipped := _SKIPPED.match(self.text, at):
                    at = skipped.end()
                    continue
                if data := _CDATA.match(self.text, at):
                    text += _lines(data[1])
                    layout = False
                    at = data.end()
                    continue
                flush()
                if self.text.startswith("</", at):
                    return tuple(parts), self._end_tag(at, name, opened)
                parts.append(self._element(at))
                at = self.end
            elif character == "{" and self.text[at + 1 : at + 2] != "{":
                flush()
                expression, at = self._enclosed(at)
                parts.append(expression)
            else:
                layout = layout and character != "&"
                piece, at = self._piece(at)
                text += _lines(piece) if character != "&" else piece

    def _end_tag(self, at: int, name: str, opened: int) -> int:
        found = _CLOSE.of(self.text).match(self.text, at)
        if found is None or found[1] != name:
            self._set_cursor(at)
            self.fail(
                "constructor",
                f"expected the end tag </{name}>",
                Span(self.source, at, found.end() if found else min(at + 2, len(self.text))),
                also=[("of this element:", Span(self.source, opened, opened + 1 + len(name)))],
            )
        return found.end()

    def _piece(self, at: int, stop: str = "") -> tuple[str, int]:
        """Plain characters, an escaped brace or a reference at `at`, decoded."""
        pair = self.text[at : at + 2]
        if pair == "{{" or pair == "}}":
            return pair[0], at + 2
        if pair[0] == "}":
            self._wrong("a } in text is written }}", at, at + 1)
        if pair[0] == "&":
            return self._reference(at)
        found = _CHARACTERS.match(self.text, at)
        assert found is not None  # <, {, } and & are handled, and the end of the text
        if stop:  # blanks in attribute values become spaces, so they are read one by one
            end = at + 1
            while end < found.end() and self.text[end] not in _BLANKS:
                end += 1
            return self.text[at:end], end
        return found[0], found.end()

    def _reference(self, at: int) -> tuple[str, int]:
        found = _REFERENCE.match(self.text, at)
        if found is None:
            self._wrong(
                "this & begins no reference",
                at,
                at + 1,
                "& itself is written &amp;, and the references are &lt; &gt; &amp; &quot; &apos; "
                "and numbers such as &#8364;",
            )
        decimal, hexadecimal, name = found.groups()
        if name:
            return _ENTITIES[name], found.end()
        digits, base = (decimal, 10) if decimal else (hexadecimal, 16)
        digits = digits.lstrip("0") or "0"
        number = int(digits, base) if len(digits) <= 10 else -1
        if not _is_character(number):
            self._wrong("this number is no XML character", *found.span())
        return chr(number), found.end()

    def _enclosed(self, at: int) -> tuple[ast.Expr, int]:
        """`{expr}` at `at`, and where it ends."""
        self.resume(at + 1)
        if self.kind == "}":
            self._wrong("there is nothing between these braces", at, at + 2)
        expression = self.predicate()
        if self.kind != "}":
            self.unexpected('"}"')
        return expression, self.end

    def _set_cursor(self, at: int) -> None:
        """Make the current token an empty one at `at`."""
        self.kind, self.value = "bad", ""
        self.start = self.end = at

    def _wrong(
        self, message: str, start: int, end: int | None = None, hint: str | None = None
    ) -> NoReturn:
        self._set_cursor(start)
        end = min(start + 1 if end is None else end, len(self.text))
        span = Span(self.source, min(start, end), end)
        self.fail("constructor", message, span, hint)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _is_character(number: int) -> bool:
    """XML 1.0, production 2."""
    return (
        number in (0x9, 0xA, 0xD)
        or 0x20 <= number <= 0xD7FF
        or 0xE000 <= number <= 0xFFFD
        or 0x10000 <= number <= 0x10FFFF
    )
