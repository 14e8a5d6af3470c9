"""XML as text: elements, attribute values, and text that stands in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PLAIN = re.compile(r"[ !#-%'-;=?-~]*").fullmatch
"""Text that stands for itself in content and in quotation marks."""


def element(name: str, attributes: Iterable[tuple[str, str]], content: str) -> str:
    """An element as text; `content` is XML already."""
    start = name + "".join(f" {key}={quote(value)}" for key, value in attributes)
    return f"<{start}>{content}</{name}>" if content else f"<{start}/>"


def quote(value: str) -> str:
    """An attribute value in quotation marks, blanks kept as they are."""
    if _PLAIN(value):
        return f'"{value}"'
    return quoteattr(clean(value), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def text_xml(text: str) -> str:
    """Text as XML; a carriage return would otherwise be read as a line feed."""
    if _PLAIN(text):
        return text
    return escape(clean(text), {"\r": "&#13;"})


def clean(text: str) -> str:
    """The text without characters that XML cannot represent."""
    return _NOT_XML.sub("", text)
