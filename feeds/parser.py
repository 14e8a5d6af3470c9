"""feedparser, called so that no document can hang it or make it read other files or addresses.

In: the bytes of a feed. Out: feedparser's own dictionaries for the feed and its entries, its name
of the dialect, and problems; for JSON Feed (`jsonfeed`) the same. `feedparser.parse` itself is not
called, for three reasons: it has no bound on time (a hostile feed can keep it busy for hours), it
decodes by rules of RFC 3023 that spoil ordinary feeds, and its handling of document types misses
cases. What it does otherwise is done here with the same two parsers: the strict one first, the
loose one where that fails.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, ClassVar
from xml.sax import SAXException, SAXParseException
from xml.sax.expatreader import ExpatParser
from xml.sax.handler import feature_external_ges, feature_external_pes, feature_namespaces
from xml.sax.saxutils import quoteattr
from xml.sax.xmlreader import InputSource

from feedparser.api import LooseFeedParser, StrictFeedParser

from feeds.encoding import decode
from feeds.item import legal_text
from feeds.jsonfeed import NoJsonFeed, looks_like_json, read_json_feed
from feeds.prolog import Prolog, make_safe

MAX_SECONDS = 10.0
"""CPU seconds that one document may take."""
MAX_ATTRIBUTES = 1_000

_FIRST_TAG = re.compile(r"<([A-Za-z_][^\s/>]{0,80})")
_HTML_DOCTYPE = re.compile(r"<!doctype\s+html\b[^>]*>", re.IGNORECASE)
_HTML_ROOT = re.compile(r"<html\b", re.IGNORECASE)
_FEED_ROOT = re.compile(r"<(?:\w+:)?(?:rss|feed|rdf)\b", re.IGNORECASE)
_ITEM = re.compile(r"<((?:[\w.-]{1,40}:)?(?:item|entry))(?=[\s>/])", re.IGNORECASE)
# Namespaces that feedparser does not know: a module, and common misspellings.
_NAMESPACES = StrictFeedParser.namespaces | {
    "http://source.scripting.com/": "source",
    "http://purl.org/dc/elements/1.1": "dc",
    "http://purl.org/rss/1.0/modules/content": "content",
    "http://purl.org/rss/modules/syndication/": "sy",
}
_NAMESPACES |= {f"https{uri[4:]}": p for uri, p in _NAMESPACES.items() if uri.startswith("http:")}
_END = re.compile(
    r"</(?:[\w.-]{1,40}:)?(?:item|entry|channel|rss|feed|rdf)(?=[\s>])", re.IGNORECASE
)
"""The end of an item, or of what is around it."""
_DECLARATION_LIKE = re.compile(r"<!((?!DOCTYPE|--|\[))", re.IGNORECASE)
_SHORT_TAG = re.compile(r"<([^<>\s]+?)\s*/>")
_REFERENCE = re.compile(r"&(#[0-9]{1,9}|#[xX][0-9A-Fa-f]{1,8}|amp|lt|gt|quot|apos);")
_PREDEFINED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
# feedparser looks for an e-mail address by a pattern that is quadratic in such a run.
_LONG_RUN = re.compile(r"[\w.+-]{255}")


class _Refused(Exception):
    """The document asks for more than any feed needs."""


class _Watched:
    """A mixin for feedparser's parsers that checks the deadline wherever they can spend time."""

    namespaces = _NAMESPACES
    _matchnamespaces: ClassVar[dict[str, str]] = {}  # filled by feedparser from the line above
    can_be_relative_uri = LooseFeedParser.can_be_relative_uri - {"id"}  # a guid stays verbatim
    deadline = 0.0
    calls = 0

    def watch(self) -> None:
        self.calls += 1
        if self.calls % 64 == 0 and time.thread_time() > self.deadline:
            raise _Refused("took too long to parse")

    def unknown_starttag(self, tag: str, attributes: list[tuple[str, str]]) -> Any:
        self.watch()
        return super().unknown_starttag(tag, attributes)  # type: ignore[misc]

    def _add_tag(self, term: str, scheme: str, label: str) -> None:
        self.watch()
        super()._add_tag(term, scheme, label)  # type: ignore[misc]

    def _start_author(self, attributes: Any) -> None:
        # feedparser would give an author who has an e-mail address only the name of the one before.
        dict.pop(self._get_context(), "author", None)  # type: ignore[attr-defined]
        super()._start_author(attributes)  # type: ignore[misc]

    def _sync_author_detail(self, key: str = "author") -> None:
        value = self._get_context().get(key)  # type: ignore[attr-defined]
        if not (isinstance(value, str) and _LONG_RUN.search(value)):
            super()._sync_author_detail(key)  # type: ignore[misc]


class _Strict(_Watched, StrictFeedParser):  # type: ignore[misc]
    def startElementNS(self, name: Any, qname: Any, attrs: Any) -> None:
        if len(attrs) > MAX_ATTRIBUTES:  # looked up one by one in a list
            raise _Refused(f"an element with {len(attrs):,} attributes")
        super().startElementNS(name, qname, attrs)


class _Loose(_Watched, LooseFeedParser):  # type: ignore[misc]
    def feed(self, data: str) -> None:
        # Does what feedparser's own `feed` does, except that feedparser also changes the text in
        # CDATA sections, and replaces references to quotes before any markup is read.
        pieces = []
        for is_text, piece in _apart(data, "<![CDATA[", "]]>"):
            if not is_text:
                piece = _DECLARATION_LIKE.sub(r"&lt;!\1", piece)
                piece = _SHORT_TAG.sub(self._shorttag_replace, piece)
            pieces.append(piece)
        self.rawdata += "".join(pieces)
        self.goahead(0)
        self.close()

    def parse_starttag(self, i: int) -> int:
        self.watch()
        return int(super().parse_starttag(i))

    def parse_endtag(self, i: int) -> int:
        self.watch()
        return int(super().parse_endtag(i))

    def parse_comment(self, i: int, report: int = 1) -> int:
        self.watch()
        return int(super().parse_comment(i, report))

    def parse_declaration(self, i: int) -> int:
        self.watch()
        return int(super().parse_declaration(i))

    def parse_pi(self, i: int) -> int:
        self.watch()
        return int(super().parse_pi(i))

    def handle_data(self, text: str, escape: int = 1) -> None:
        self.watch()
        super().handle_data(text, escape)

    # References are replaced once, everywhere: feedparser leaves them in guids, names and
    # attributes, and in texts replaces what it has replaced before. An item must not change when
    # its feed breaks.

    def decode_entities(self, element: str, data: str) -> str:
        if self.contentparams.get("type", "").endswith("xml"):
            return str(super().decode_entities(element, data))
        return _REFERENCE.sub(_character, data)

    @staticmethod
    def _normalize_attributes(pair: tuple[str, str]) -> tuple[str, str]:
        name, value = pair[0].lower(), _REFERENCE.sub(_character, pair[1])
        return name, value.lower() if name in ("rel", "type") else value

    @staticmethod
    def strattrs(attributes: list[tuple[str, str]]) -> str:
        return "".join(f" {name}={quoteattr(value)}" for name, value in attributes)

    def handle_charref(self, ref: str) -> None:
        with contextlib.suppress(ValueError, OverflowError):  # a number that is no character
            super().handle_charref(ref)


def _apart(data: str, opening: str, closing: str) -> Iterator[tuple[bool, str]]:
    """The pieces of a document, each with whether it is a section (CDATA, a comment)."""
    end = 0
    while (start := data.find(opening, end)) >= 0 and (close := data.find(closing, start)) >= 0:
        yield False, data[end:start]
        end = close + len(closing)
        yield True, data[start:end]
    yield False, data[end:]


def _without(data: str, opening: str, closing: str) -> str:
    return " ".join(piece for inside, piece in _apart(data, opening, closing) if not inside)


def _tags(text: str) -> str:
    """A document without its comments and CDATA sections, in which tags may seem to be."""
    return _without(_without(text, "<![CDATA[", "]]>"), "<!--", "-->")


def _is_cut_off(inside: str) -> bool:
    """Whether a document of these tags ends within an item."""
    for opening in ("<![CDATA[", "<!--"):  # what is left of them has no end
        inside = inside.partition(opening)[0]
    begin = max((found.end() for found in _ITEM.finditer(inside)), default=-1)
    if begin < 0 or _END.search(inside, begin):
        return False
    return not inside[begin:].partition(">")[0].endswith("/")


def _character(found: re.Match[str]) -> str:
    """What a reference stands for; one to no character stays."""
    name = found[1]
    if not name.startswith("#"):
        return _PREDEFINED[name]
    digits = name[1:]
    try:
        return chr(int(digits[1:], 16) if digits[0] in "xX" else int(digits))
    except (ValueError, OverflowError):
        return found[0]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document as feedparser has parsed it.

    `version` is feedparser's short name of the dialect ("rss20", "atom10", "rss10", ...; "" if it
    knows none). A `malformed` document is not well-formed XML and was read by the loose parser; one
    that is `cut` ends within an item, which is left out.
    With an `error`, the document is no feed and the rest is empty.
    """

    version: str = ""
    feed: Any = None
    entries: tuple[Any, ...] = ()
    problems: tuple[str, ...] = ()
    error: str | None = None
    malformed: bool = False
    cut: bool = False


def parse_document(body: bytes, content_type: str = "", max_seconds: float = MAX_SECONDS) -> Parsed:
    """Parse a feed of any dialect. Never raises; links are left as relative as they are."""
    if not body.strip():
        return Parsed(error="the document is empty")
    text, problems = decode(body, content_type)
    legal = legal_text(text)
    if len(legal) != len(text):
        if len(text) - len(legal) > len(text) // 10:
            return Parsed(error="binary data, not XML")
        problems += ("characters that XML does not allow were removed",)
    if looks_like_json(legal):
        return _json(legal, problems)
    prolog = make_safe(legal)
    refused = prolog.refused or _other_format(prolog.text)
    if refused:
        return Parsed(error=refused)
    return _parse_xml(prolog, problems + prolog.problems, time.thread_time() + max_seconds)


def _parse_xml(prolog: Prolog, problems: tuple[str, ...], deadline: float) -> Parsed:
    """Parse strictly if the document is well-formed, else loosely; `problems` says what was
    lost."""
    malformed = False
    try:
        try:
            parser: Any = _strict(prolog.text, deadline)
        except _Refused:
            raise
        except Exception as error:  # feedparser's handlers fail in many ways on malformed feeds
            problems += (f"not well-formed: {_describe(error)}",)
            malformed = True
            parser = _loose(prolog.text, dict(prolog.entities), deadline)
    except _Refused as refusal:
        return Parsed(error=str(refusal))
    except Exception as error:
        return Parsed(error=f"feedparser failed: {type(error).__name__}: {error}")

    if not parser.version and not parser.entries:
        return Parsed(error=_no_feed(prolog.text, problems))
    tags = _tags(prolog.text)
    items = _ITEM.findall(tags)  # their names, prefixes included
    entries = tuple(parser.entries)
    cut = malformed and bool(entries) and _is_cut_off(tags)
    if cut:
        # Half of an item would be one with another link, or without a date.
        entries = entries[:-1]
        problems += ("it ends within an item, which is left out",)
    if items and not parser.entries:
        count = f"its {len(items)} elements" if len(items) > 1 else "its element"
        return Parsed(error="; ".join((f"no item found in {count} <{items[0]}>", *problems)))
    if malformed and len(items) > len(parser.entries):
        lost = len(items) - len(parser.entries)
        problems += (f"{lost} of its {len(items)} items could not be read",)
    if not parser.version:
        problems += ("dialect unknown",)
    return Parsed(parser.version, parser.feeddata, entries, problems, malformed=malformed, cut=cut)


def _json(text: str, problems: tuple[str, ...]) -> Parsed:
    try:
        found = read_json_feed(text)
    except NoJsonFeed as error:
        return Parsed(error=str(error))
    return Parsed(found.version, found.feed, found.entries, problems + found.problems)


def _prepared(parser: Any, deadline: float) -> Any:
    parser.deadline = deadline
    # The HTML is data to be matched, not shown: it stays as it was sent.
    parser.resolve_relative_uris = False
    parser.sanitize_html = False
    return parser


def _strict(text: str, deadline: float) -> Any:
    parser = _prepared(_Strict("", None, "utf-8"), deadline)
    data = text.encode()
    # One read: expat scans an unfinished token again with each piece.
    reader = ExpatParser(1, len(data) + 1)
    reader.setFeature(feature_namespaces, True)
    reader.setFeature(feature_external_ges, False)
    assert not reader.getFeature(feature_external_pes)
    reader.setContentHandler(parser)
    reader.setErrorHandler(parser)
    source = InputSource()
    source.setByteStream(BytesIO(data))
    source.setEncoding("utf-8")
    reader.parse(source)
    return parser


def _loose(text: str, entities: dict[str, str], deadline: float) -> Any:
    parser = _prepared(_Loose("", None, "utf-8", entities), deadline)
    parser.namespacemap |= {"rss": "", "atom": ""}  # declared or not
    parser.feed(text.replace("\r\n", "\n").replace("\r", "\n"))  # XML 1.0, 2.11
    return parser


def _describe(error: Exception) -> str:
    if isinstance(error, SAXParseException):
        return f"line {error.getLineNumber()}: {error.getMessage()}"
    if isinstance(error, SAXException):
        return error.getMessage()
    return f"{type(error).__name__}: {error}"


def _other_format(text: str) -> str | None:
    """What the text is if it is plainly not a feed ("an HTML page, ..."), else None; checked before
    the loose parser runs, which is slow."""
    start = _after_comments(text, 0)
    doctype = _HTML_DOCTYPE.match(text, start)
    if doctype:
        start = _after_comments(text, doctype.end())
    page = doctype or _HTML_ROOT.match(text, start)
    if page and not _FEED_ROOT.search(text, start):  # some wrap their feed in a page
        return "an HTML page, not a feed"
    return None if "<" in text else "plain text, not XML"


def _after_comments(text: str, position: int) -> int:
    """Where the white space, comments and processing instructions from `position` on end."""
    while True:
        while text[position : position + 1].isspace():
            position += 1
        for opening, closing in (("<!--", "-->"), ("<?", "?>")):
            end = text.find(closing, position) if text.startswith(opening, position) else -1
            if end >= 0:
                position = end + len(closing)
                break
        else:
            return position


def _no_feed(text: str, problems: tuple[str, ...]) -> str:
    tag = _FIRST_TAG.search(text)
    if tag and tag.group(1).lower() == "opml":
        return (
            "not a feed but a list of feeds (OPML): save it as a file and name that, or import it"
        )
    reason = f"not a feed: the root element is <{tag.group(1)}>" if tag else "not a feed"
    return "; ".join((reason, *problems))
