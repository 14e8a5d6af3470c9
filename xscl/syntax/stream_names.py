"""Feed titles and addresses that are written in the place of a stream's name.

In: the text from where a stream was expected. Out: the title or the address, and a hint with the
name of that stream. It is used for hints, after an error.
"""

from __future__ import annotations

import re

from xscl.syntax.printer import quoted

# No group is repeated possessively: Python before 3.11.5 takes too much there (gh-106052).
_SCHEMES = frozenset(["http", "https", "feed", "file", "ftp"])
# An address has a dot or a port; a label and a block, as in `feed://item`, have neither.
_ADDRESS = re.compile(r"""[A-Za-z]+://[^\s/;.:]*+[.:](?:(?!//)[^\s;'"<>{}\[\]])*""")
# The words of a title, with the punctuation of titles, up to the path of the block.
_WORD = r"""[^\s/\[\]{}()<>=;:'",]++"""
_TITLE = re.compile(rf"""{_WORD}(?:[ \t]++{_WORD}){{1,11}}[ \t]*+(?=//?[\w*@.])""")
_QUOTED = re.compile(r"""('[^'\n]+'|"[^"\n]+")[ \t]*(?=//?[\w*@.])""")
_LABEL = re.compile(r"[^\W\d][\w.-]*")
_NO_NAME = re.compile(r"[^\w.-]+")
_KEYWORDS = frozenset(["FOLLOWED", "BY", "JOIN", "AND", "OR", "NOT", "SELECT", "FROM", "WHERE"])


def is_scheme(word: str) -> bool:
    """Whether the word is the scheme of an address, so that `word://` begins no labelled query."""
    return word.lower() in _SCHEMES


def address(text: str, start: int) -> tuple[str, int] | None:
    """The address that begins at `start`, in quotation marks or not, and where it ends."""
    lead = text[start : start + 1]
    begin = start + 1 if lead in ("'", '"') else start
    found = _ADDRESS.match(text, begin)
    if found is None or not is_scheme(text[begin : text.index(":", begin)]):
        return None
    end = found.end()
    return found[0], end + 1 if lead in ("'", '"') and text[end : end + 1] == lead else end


def address_hint(url: str) -> str:
    return (
        f"its items are S//item[./channel_url = {quoted(url)}]; the feed itself is given to broker "
        "feeds add, or to broker run by --feeds"
    )


def title(text: str, start: int) -> tuple[str, int] | None:
    """The title of several words at `start`, followed by a path, and where it ends."""
    if found := _QUOTED.match(text, start):
        return found[1][1:-1], start + len(found[1])
    found = _TITLE.match(text, start)
    if found is None:
        return None
    words = found[0].split()
    if words[-1] == "S" or "--" in found[0] or any(word.upper() in _KEYWORDS for word in words):
        return None
    return " ".join(words), start + len(found[0].rstrip())


def title_hint(name: str, labels: bool) -> str:
    """The name of the stream of a feed with this title. `labels`: a label is possible here, which
    the first word may be meant to be."""
    stream = _NO_NAME.sub("_", name).strip("_-.")
    if not stream or not re.match(r"[^\W\d]", stream):
        stream = f"_{stream}"
    hint = f"the feed {name} flows through the stream {stream}: {stream}//item"
    first, _, rest = name.partition(" ")
    if labels and _LABEL.fullmatch(first) and _LABEL.fullmatch(rest):
        hint += f"; if {first} is to be a label, write {first}: {rest}//item"
    return hint
