"""OPML: the file that feed readers exchange their subscriptions in.

In: bytes, well-formed or nearly so. Out: subscriptions in document order; and back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urljoin

from lxml import etree

from feeds.item import legal_text, one_line

# Addresses are full of these, and recovery would drop what follows them.
_BARE_AMPERSAND = re.compile(rb"&(?!#\d+;|#x[0-9A-Fa-f]+;|[A-Za-z][\w.-]*;)")


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
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    if b"\0" not in data:  # the bytes of "&" mean "&" in all encodings but UTF-16 and UTF-32
        data = _BARE_AMPERSAND.sub(b"&amp;", data)
    try:
        root = etree.fromstring(data.lstrip(), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise OpmlError(f"opml: not XML: {error}") from error
    if root is None or not any(_is(element, "outline") for element in root.iter()):
        raise OpmlError("opml: no <outline> in the file")
    found: dict[str, Subscription] = {}
    # Depth first without recursion: a hostile file nests deeper than Python does.
    waiting: list[tuple[etree._Element, str]] = [(root, "")]
    while waiting:
        element, folder = waiting.pop()
        inside = folder
        if _is(element, "outline"):
            values = {etree.QName(name).localname.lower(): v for name, v in element.attrib.items()}
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


def _is(element: etree._Element, name: str) -> bool:
    return isinstance(element.tag, str) and etree.QName(element).localname.lower() == name


def _resolved(url: str, base: str) -> str:
    if not base or "://" in url or url.startswith(("/", "file:")):
        return url
    if "://" in base:
        return urljoin(base, url)
    folder = base.replace("\\", "/").rpartition("/")[0]
    return f"{folder}/{url}" if folder else url
