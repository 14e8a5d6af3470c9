"""The prolog of a feed, made safe: document type, entities, XML declaration.

In: the text of a document. Out: the same text with a prolog that is safe to parse, the internal
entities that it declares, problems, and a reason to refuse it. Old RSS carries a DOCTYPE that is
harmless; nothing outside the document is ever read for one. Internal entities and the defaults of
attributes stay; where either would expand beyond `MAX_EXPANSION` characters (the "billion laughs",
the quadratic blow-up) the document is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_EXPANSION = 1_000_000

_DECLARATION = re.compile(r"\s*<\?xml\s[^>]*\?>")
_REFERENCE = re.compile(r"&([^\s#&;<>%]{1,200});")
_TAG = re.compile(r"<([^\s<>/!?&;]{1,200})")
_ROOT = re.compile(r"<[A-Za-z_]")
_PREDEFINED = frozenset(("lt", "gt", "amp", "quot", "apos"))


@dataclass(frozen=True, slots=True)
class Prolog:
    """A document made safe. `text` keeps its line numbers; `refused` says why not to parse it."""

    text: str
    entities: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    refused: str | None = None


class _Root(Exception):
    """The root element was reached, at this byte."""


def make_safe(text: str) -> Prolog:
    """Drop the XML declaration, and replace a DOCTYPE by one that declares nothing external."""
    declaration = _DECLARATION.match(text)
    if declaration:
        text = "\n" * declaration.group().count("\n") + text[declaration.end() :]
    if "<!DOCTYPE" not in text:
        return Prolog(text)

    entities: dict[str, str] = {}
    defaults: dict[tuple[str, str], str] = {}
    problems: list[str] = []

    def attribute_declared(
        element: str, name: str, kind: str, default: str | None, _required: int
    ) -> None:
        if (
            default is not None
        ):  # XML: the first declaration counts, and but for CDATA blanks do not
            value = default if kind == "CDATA" else " ".join(default.split())
            defaults.setdefault((element, name), value)

    def entity_declared(
        name: str,
        is_parameter: int,
        value: str | None,
        _base: str | None,
        _system: str | None,
        _public: str | None,
        _notation: str | None,
    ) -> None:
        if is_parameter:
            problems.append(f"document type: parameter entity '{name}' ignored")
        elif value is None:
            problems.append(f"document type: external entity '{name}' not read")
        else:
            entities.setdefault(name, value)  # XML: the first declaration counts

    def root_reached(_name: str, _attributes: dict[str, str]) -> None:
        raise _Root(parser.CurrentByteIndex)  # expat itself only stops at the document's end

    parser = expat.ParserCreate("utf-8")
    parser.EntityDeclHandler = entity_declared
    parser.AttlistDeclHandler = attribute_declared
    parser.StartElementHandler = root_reached
    body = text.encode()
    try:
        parser.Parse(body, True)
        return Prolog(text)
    except _Root as root:
        start = len(body[: root.args[0]].decode())
    except expat.ExpatError:
        # Not well-formed before the root. No declaration in there is worth keeping.
        entities.clear()
        defaults.clear()
        problems.append("document type: not well-formed, ignored")
        tag = _ROOT.search(text)
        start = tag.start() if tag else 0

    refused = _refused(entities, defaults, text)
    if refused:
        return Prolog("", refused=refused)
    declarations = "".join(
        f'<!ENTITY {name} "{_literal(value)}">' for name, value in entities.items()
    ) + "".join(
        f"<!ATTLIST {element} {name} CDATA {quoteattr(value)}>"
        for (element, name), value in defaults.items()
    )
    doctype = f"<!DOCTYPE feed [{declarations}]>" if declarations else ""
    safe = "\n" * text.count("\n", 0, start) + doctype + text[start:]
    return Prolog(safe, entities, tuple(dict.fromkeys(problems)))


def _literal(replacement: str) -> str:
    """An entity value that reads as exactly this replacement text (XML 1.0, 4.4 and 4.5)."""
    return replacement.replace("&", "&#38;").replace("%", "&#37;").replace('"', "&#34;")


def _refused(
    entities: Mapping[str, str], defaults: Mapping[tuple[str, str], str], text: str
) -> str | None:
    """Why the document would expand too far, by its entities or the defaults of its attributes."""
    sizes: dict[str, int] = {}
    for name in entities:
        if not _measure(name, entities, sizes):
            return f"entity '{name}' refers to itself"
    uses = Counter(_REFERENCE.findall(text)) if entities else {}
    expanded = sum(count * sizes.get(name, 0) for name, count in uses.items())
    if expanded > MAX_EXPANSION:
        return f"entities would expand to more than {MAX_EXPANSION:,} characters"
    elements = Counter(_TAG.findall(text)) if defaults else Counter[str]()
    marked_up = any("<" in value for value in entities.values())
    total = 0
    for (element, name), value in defaults.items():
        # What entities hold may be nothing but this element, as <b/>.
        there = elements[element] + (expanded // (len(element) + 3) if marked_up else 0)
        total += there * (len(name) + len(value))
    if total > MAX_EXPANSION:
        return f"defaults of attributes would be more than {MAX_EXPANSION:,} characters"
    return None


def _measure(name: str, entities: Mapping[str, str], sizes: dict[str, int]) -> bool:
    """Fill in the expanded size of `name` and all it uses; False if it uses itself.

    Iterative, since a chain of entities may be as long as the document.
    """
    open_names: dict[str, None] = {}
    stack = [name]
    while stack:
        current = stack[-1]
        if current in sizes:
            stack.pop()
            continue
        value = entities[current]
        used = Counter(
            ref for ref in _REFERENCE.findall(value) if ref in entities and ref not in _PREDEFINED
        )
        waiting = [ref for ref in used if ref not in sizes]
        if not waiting:
            # Capped, so that doubling a million times stays arithmetic on small numbers.
            size = len(value) + sum(count * sizes[ref] for ref, count in used.items())
            sizes[current] = min(size, MAX_EXPANSION + 1)
            open_names.pop(current, None)
            stack.pop()
        elif current in open_names:
            return False
        else:
            open_names[current] = None
            stack += waiting
    return True
