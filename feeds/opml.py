"""OPML: the file that feed readers exchange their subscriptions in.

In: bytes, well-formed or nearly so. Out: subscriptions in document order; and back. Nothing outside
the file is read, and its entities are not expanded.
"""

from __future__ import annotations

import html
import os.path
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from lxml import etree

from feeds.encoding import decode
from feeds.fetch import local_path
from feeds.item import legal_text, one_line

_START = re.compile(r"<(?:!DOCTYPE|[A-Za-z])")  # after the XML declaration and any other text
_EMPTY = re.compile(r"/\s*>")
# Addresses are full of bare ampersands, and the parser's recovery would drop the text after them.
# Undeclared entities are read as HTML's.
_AMPERSAND = re.compile(r"&(?:(#\d+|#x[0-9A-Fa-f]+|lt|gt|amp|quot|apos);|([A-Za-z][A-Za-z0-9]*;)?)")

_READ = ("title", "text", "xmlurl")
"""The attributes of an outline that are read."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One feed: its address, its title ("" if none is given), its folder ("a/b", "" at the top)."""

    url: str
    title: str = ""
    folder: str = ""


class OpmlError(ValueError):
    """The bytes hold no OPML outline."""


def read_opml(data: bytes, base: str = "") -> list[Subscription]:
    """The subscriptions of an OPML file, each address once.

    Recovers what it can of a file that is not well-formed. Relative addresses are taken relative to
    `base`, the URL or path of the file itself. Raises OpmlError if there is no outline in it.
    """
    text, _ = decode(data)
    text = legal_text(text)
    start = _START.search(text)
    text = _AMPERSAND.sub(_as_xml, text[start.start() :] if start else text.strip())
    root = _tree(text)
    if root is None or not any(_is(element, "outline") for element in root.iter()):
        raise OpmlError("opml: no <outline> in the file")
    found: dict[str, Subscription] = {}
    # Depth first without recursion: a hostile file nests deeper than Python does.
    waiting: list[tuple[etree._Element, str]] = [(root, "")]
    while waiting:
        element, folder = waiting.pop()
        inside = folder
        if _is(element, "outline"):
            # Not all values: lxml looks for each from the first attribute on.
            names = {_local(name): name for name in element.attrib}
            values = {name: element.get(names[name]) for name in _READ if name in names}
            title = one_line(str(values.get("title") or values.get("text") or ""))
            url = one_line(str(values.get("xmlurl") or ""))
            if url:
                named = "" if title == url else title  # `text` is required, so it may repeat that
                url = _resolved(url, base)
                found.setdefault(url, Subscription(url, named, folder))
            elif title:
                inside = f"{folder}/{title}" if folder else title
        waiting += [(child, inside) for child in reversed(element) if isinstance(child.tag, str)]
    return list(found.values())


def write_opml(subscriptions: Iterable[Subscription], title: str = "Subscriptions") -> bytes:
    """An OPML 2.0 file, UTF-8; `read_opml` gives the same subscriptions back, folder by folder."""
    opml = etree.Element("opml", version="2.0")
    etree.SubElement(etree.SubElement(opml, "head"), "title").text = legal_text(title)
    body = etree.SubElement(opml, "body")
    folders: dict[str, etree._Element] = {"": body}
    for subscription in subscriptions:
        parent, path = body, ""
        for name in filter(None, subscription.folder.split("/")):
            path = f"{path}/{name}" if path else name
            if path not in folders:
                folders[path] = etree.SubElement(parent, "outline", text=one_line(name))
            parent = folders[path]
        outline = etree.SubElement(parent, "outline", type="rss")
        outline.set("text", one_line(subscription.title) or subscription.url)
        if subscription.title:
            outline.set("title", one_line(subscription.title))
        outline.set("xmlUrl", legal_text(subscription.url))
    etree.indent(opml)
    return etree.tostring(opml, xml_declaration=True, encoding="utf-8") + b"\n"


def _tree(text: str) -> etree._Element | None:
    """The document, or what can be recovered of it: as XML or as HTML, whichever finds more feeds.

    XML recovery keeps the folders best, and stumbles over attributes without quotes or with too
    many.
    """
    xml = etree.XMLParser(
        encoding="utf-8",
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )
    try:
        root = etree.fromstring(text.encode(), xml)
    except (etree.XMLSyntaxError, ValueError):
        root = None
    if root is not None and not xml.error_log:
        return root
    # HTML has no empty-element tags.
    loose = _EMPTY.sub("></outline>", text).encode()
    try:
        other = etree.fromstring(loose, etree.HTMLParser(encoding="utf-8", no_network=True))
    except (etree.XMLSyntaxError, ValueError):
        other = None
    return max((root, other), key=_feed_count)


def _feed_count(root: etree._Element | None) -> int:
    if root is None:
        return -1
    return sum(
        _is(element, "outline") and any(_local(name) == "xmlurl" for name in element.attrib)
        for element in root.iter()
    )


def refusal(url: str, base: str) -> str:
    """Why an address out of an OPML file may not be subscribed, "" if it may.

    Such files may be from strangers. So only http and https addresses are allowed, and local files
    that lie in the folder of the OPML file or below it.
    """
    path = local_path(url)
    if path is None:
        try:
            scheme = urlsplit(url).scheme.lower() if "://" in url else ""
        except ValueError:
            return "not an address"
        return "" if scheme in ("http", "https") else f"a '{scheme}:' address is not fetched"
    home = local_path(base)
    if home is None:
        return "a file, named by a list from elsewhere"
    folder = os.path.normpath(home.parent)
    inside = os.path.normpath(path).startswith(os.path.join(folder, ""))
    return "" if inside else "a file outside the folder of the list"


def _as_xml(found: re.Match[str]) -> str:
    """What an ampersand stands for, as XML."""
    if found[1]:
        return found[0]
    if not found[2]:
        return "&amp;"
    text = html.unescape(found[0])
    return found[0] if text == found[0] else html.escape(text)


def _is(element: etree._Element, name: str) -> bool:
    return isinstance(element.tag, str) and _local(element.tag) == name


def _local(name: str | bytes) -> str:
    """The local name in lower case; of broken markup it need not be a name."""
    return re.split("[}:]", str(name))[-1].lower()


def _resolved(url: str, base: str) -> str:
    if not base or "://" in url or url.startswith(("/", "file:")):
        return url
    if "://" in base:
        return urljoin(base, url)
    folder = base.replace("\\", "/").rpartition("/")[0]
    return f"{folder}/{url}" if folder else url
