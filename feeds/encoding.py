"""From the bytes of a feed to text: which encoding, and what is reported about it.

In: bytes and the HTTP Content-Type. Out: text without a byte order mark, and problems as strings.
Feeds lie about their encoding, so what decodes as UTF-8 and may be UTF-8 is UTF-8 (text in another
encoding practically never does); then come the byte order mark, the HTTP header and the XML
declaration in the order of RFC 7303, and Windows-1252 as the last resort. A few stray bytes in
UTF-8, as pasted text brings them, are read as Windows-1252 by themselves. Declared ISO-8859-1 is
read as Windows-1252, as browsers do: the difference is a range of control characters no text uses.
"""

from __future__ import annotations

import codecs
import re

_BOMS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SNIFFS = (  # "<?xm" without a mark, XML 1.0 appendix F
    (b"<\0\0\0?\0\0\0", "utf-32-le"),
    (b"\0\0\0<\0\0\0?", "utf-32-be"),
    (b"<\0?\0", "utf-16-le"),
    (b"\0<\0?", "utf-16-be"),
    (b"\x4c\x6f\xa7\x94", "cp037"),
)
_DECLARED = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:\-]{1,40})[\"']")
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([A-Za-z0-9._:\-]{1,40})", re.IGNORECASE)
_STRAY = re.compile("[\udc80-\udcff]")  # as surrogateescape writes a byte that is not UTF-8
# Supersets that real text labelled with the smaller name needs.
_WIDER = {"iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030",
          "shift_jis": "cp932", "euc_kr": "cp949"}  # fmt: skip
# Codecs of Python that are no encodings of documents: some could hide markup from a check.
_REFUSED = {"utf-7", "unicode-escape", "raw-unicode-escape", "punycode", "idna", "undefined",
            "mbcs", "oem"}  # fmt: skip


def decode(body: bytes, content_type: str = "") -> tuple[str, tuple[str, ...]]:
    """The text of `body`, and what is to be reported about its encoding. Never fails."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return _decode_as(body[len(mark) :], name)
    for start, name in _SNIFFS:
        if body.startswith(start):
            return _decode_as(body, name)
    in_document = _DECLARED.match(body)
    in_header = _CHARSET.search(content_type)
    declared = [
        label
        for label in (
            in_header.group(1) if in_header else "",
            in_document.group(1).decode("ascii") if in_document else "",
        )
        if label
    ]
    try:
        text = body.decode()
    except UnicodeDecodeError:
        pass
    else:
        # An ASCII-compatible text without a byte above 127 may still be ISO-2022 or HZ.
        if not (body.isascii() and any(_stateful(label) for label in declared)):
            return text, ()
    as_declared = _decode_as_declared(body, declared)
    if as_declared is not None:
        return as_declared
    mixed = _mostly_utf8(body)
    if mixed is not None:
        return mixed, ("encoding: not all of it is valid utf-8, the rest read as windows-1252",)
    stated = declared[-1] if declared else "utf-8"
    text = body.decode("cp1252", "replace")
    return text, (f"encoding: not valid {stated}, read as windows-1252",)


def _decode_as_declared(body: bytes, declared: list[str]) -> tuple[str, tuple[str, ...]] | None:
    """By the first of the declared encodings that fits, None if none does."""
    for label in declared:
        codec = _codec(label)
        # Text in UTF-16 is full of zeros, so a document without any cannot mean it.
        if codec is None or (codec.startswith(("utf-16", "utf-32")) and b"\0" not in body):
            continue
        try:
            text = body.decode(codec)
        except UnicodeDecodeError:
            continue
        if label != declared[-1] and _codec(declared[-1]) != codec:
            return text, (f"encoding: declared as {declared[-1]}, read as {label}",)
        return text, ()
    return None


def _mostly_utf8(body: bytes) -> str | None:
    """The text, if more characters are UTF-8 than bytes are not; None otherwise."""
    text = body.decode(errors="surrogateescape")
    stray = len(_STRAY.findall(text))
    if len(body) - len(text) <= stray:
        return None
    return _STRAY.sub(lambda found: _windows(ord(found.group()) - 0xDC00), text)


def _windows(byte: int) -> str:
    return bytes((byte,)).decode("cp1252", "replace")


def _decode_as(body: bytes, codec: str) -> tuple[str, tuple[str, ...]]:
    try:
        return body.decode(codec), ()
    except UnicodeDecodeError:
        text = body.decode(codec, "replace")
        return text, (f"encoding: not valid {codec}, broken characters replaced",)


def _codec(label: str) -> str | None:
    """The name of the codec to decode `label` with, None if it is unknown or refused."""
    try:
        name = codecs.lookup(label).name
        if name in _REFUSED:
            return None
        "".encode(name)  # a LookupError for codecs from bytes to bytes, such as base64
    except LookupError:
        return None
    return _WIDER.get(name, name)


def _stateful(label: str) -> bool:
    codec = _codec(label)
    return codec is not None and (codec.startswith("iso2022") or codec == "hz")
