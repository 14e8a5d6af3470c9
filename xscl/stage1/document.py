"""XML documents: safe parsing, node numbers, string values.

A node is an integer. Its low 32 bits are the preorder index of an element (comments and processing
instructions are counted too, the root element is 0); the bits above are 0 for the element itself,
k for its k-th attribute and `TEXT_NODE | k` for its k-th text child (both counted from 1). The
number is stable: the same bytes always give the same node the same number, so a stored number
finds its node again when a match is published.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import xxhash
from lxml import etree

ELEMENT_BITS = 32
ELEMENT_MASK = (1 << ELEMENT_BITS) - 1
TEXT_NODE = 1 << 20
DOCUMENT_NODE = -1
"""The node above the root element, to which only tree patterns of one node refer."""


class DocumentError(ValueError):
    """The bytes are not a document that can be processed; the message has the reason and place."""


class _NothingExternal(etree.Resolver):
    """Gives a comment for the external subset of a DTD, whatever its address."""

    def resolve(  # type: ignore[override]  # the stubs leave the context out
        self, system_url: str | None, public_id: str | None, context: object
    ) -> object:
        return self.resolve_string("<!-- not read -->", context, base_url=None)


def _parser() -> etree.XMLParser:
    # Entities and default attributes of the document's own DTD are expanded ("internal"), and
    # libxml2 bounds the size of both. External entities are an error, and an external subset is
    # replaced by an empty one: nothing outside the bytes is ever read.
    parser = etree.XMLParser(
        resolve_entities="internal",  # type: ignore[arg-type]  # newer than the stubs
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=True,
        huge_tree=False,
        recover=False,
    )
    parser.resolvers.add(_NothingExternal())
    return parser


_PARSER = _parser()

_ATTRIBUTES = etree.XPath("@*")
_MANY_ATTRIBUTES = 64
"""From which on that is faster than lxml's `items`, which looks for each from the first one on: so
60,000 took it ten seconds."""


_MOST_NAMESPACES = 1_000
_LIKE_ASCII = frozenset([None, "UTF-8", "ISO-8859-1", "US-ASCII", "windows-1252"])
"""Encodings in which `xmlns` is these bytes."""

_ADVICE = re.compile(r", (?:try|use) XML_PARSE_HUGE(?: option)?|, see xml\w+\.")
"""What libxml2 advises to programs."""
_TOO_LARGE = re.compile("too long|too big|Excessive depth|Buffer size limit")
_LIMITS = (
    "elements may be 256 deep, a name 50,000 characters long, and a text, a comment and what stands"
    " in one tag 10 MB"
)

_PACKED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
"""With what such files begin, which people take for what is in them."""


def parse_document(xml: bytes) -> etree._Element:
    """The root element. Raises `DocumentError` unless the bytes are a well-formed, self-contained
    document."""
    try:
        root = etree.fromstring(xml, _PARSER)
    except etree.XMLSyntaxError as error:
        for begin, name in _PACKED.items():
            if xml.startswith(begin):
                raise DocumentError(f"not XML, but packed by {name}: unpack it first") from None
        reason = _ADVICE.sub("", " ".join(error.msg.split()).replace(" ,", ","))
        if _TOO_LARGE.search(reason):
            raise DocumentError(f"larger than XML is parsed here: {reason}; {_LIMITS}") from None
        raise DocumentError(f"not well-formed XML: {reason}") from None
    except ValueError as error:
        raise DocumentError(f"not XML: {error}") from None
    if len(xml) > _MOST_NAMESPACES * len(b" xmlns:a=''"):
        _check_namespaces(root, xml)
    return root


def _check_namespaces(root: etree._Element, xml: bytes) -> None:
    """Raise `DocumentError` where so many namespaces are declared around an element that to copy
    it would take long, which is quadratic."""
    written_in_ascii = root.getroottree().docinfo.encoding in _LIKE_ASCII
    if written_in_ascii and xml.count(b"xmlns") <= _MOST_NAMESPACES:
        return
    declared = 0
    for event, _ in etree.iterwalk(root, events=("start-ns", "end-ns")):
        declared += 1 if event == "start-ns" else -1
        if declared > _MOST_NAMESPACES:
            raise DocumentError(
                f"larger than XML is parsed here: more than {_MOST_NAMESPACES:,} namespaces are"
                " declared around an element"
            )


def encode_text(text: str) -> bytes:
    """A document's text in UTF-8, without its XML declaration, whose encoding no longer holds."""
    text = text.removeprefix("\ufeff")
    if text.startswith("<?xml") and text[5:6] in " \t\r\n":
        end = text.find("?>")
        if end != -1:
            # Keep the line breaks, so that errors have the line numbers of the text.
            text = "\n" * text.count("\n", 0, end) + text[end + 2 :].lstrip(" \t")
    return text.encode("utf-8", "surrogatepass")


def string_value(element: etree._Element) -> str:
    """XPath string value of an element: all text below it, in document order."""
    if len(element) == 0:
        return element.text or ""
    return etree.tostring(element, method="text", encoding=str, with_tail=False)


def text_children(element: etree._Element) -> list[str]:
    """The text nodes among an element's children, in document order."""
    texts = [element.text] if element.text else []
    texts.extend(child.tail for child in element if child.tail)
    return texts


def attributes(element: etree._Element) -> list[tuple[str, str]]:
    """The attributes of an element in their order, with names in Clark notation."""
    if len(element.attrib) < _MANY_ATTRIBUTES:
        return [(str(name), str(value)) for name, value in element.items()]
    each: Any = _ATTRIBUTES(element)
    return [(str(value.attrname), str(value)) for value in each]


def has_name(node: Any) -> bool:
    """Whether a node of lxml is an element; comments and processing instructions are none, and
    their tags are no strings, whatever the stubs say."""
    return isinstance(node.tag, str)


def node_element(root: etree._Element, node: int) -> etree._Element:
    """The element that a node number is, or belongs to."""
    return next(islice(root.iter(), node & ELEMENT_MASK, None))


def node_text(root: etree._Element, node: int) -> str:
    """String value of a numbered node."""
    return text_at(node_element(root, node), node)


def text_at(element: etree._Element, node: int) -> str:
    """String value of a numbered node, given its element."""
    ordinal = node >> ELEMENT_BITS
    if ordinal == 0:
        return string_value(element) if has_name(element) else element.text or ""
    if ordinal & TEXT_NODE:
        return text_children(element)[(ordinal & ~TEXT_NODE) - 1]
    return str(element.get(element.keys()[ordinal - 1]))


def attribute_name(element: etree._Element, node: int) -> str:
    """Local name of a numbered attribute node of an element."""
    name = element.keys()[(node >> ELEMENT_BITS) - 1]
    return etree.QName(name).localname


def value_code(text: str) -> int:
    """The integer that stands for a string in the match relations (64 bits, unsigned).

    Equal strings have equal codes. Whether equal codes came from equal strings is checked once more
    on the documents themselves when a match is published.
    """
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
