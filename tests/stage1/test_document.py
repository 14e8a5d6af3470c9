"""Documents that are none: what is said of them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable

import pytest

from xscl.stage1.document import (
    ELEMENT_BITS,
    DocumentError,
    attribute_name,
    attributes,
    parse_document,
    text_at,
)


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.xml", data)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "pack"),
    [("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress), ("zip", zipped)],
)
def test_a_packed_document_is_named_as_such(name: str, pack: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DocumentError, match=f"packed by {name}: unpack it first"):
        parse_document(pack(b"<a/>"))


@pytest.mark.parametrize("count", [0, 3, 62, 63, 64, 65, 500])
def test_attributes_come_in_their_order_however_many(count: int) -> None:
    names = [f"{'p:' if n % 3 == 0 else ''}a{n}" for n in range(count)]
    written = " ".join(f"{name}='&lt;{n}\u00e9'" for n, name in enumerate(names))
    element = parse_document(f"<r xmlns:p='urn:p' xmlns='urn:d' {written}/>".encode())
    assert attributes(element) == [
        (name.replace("p:", "{urn:p}"), f"<{n}\u00e9") for n, name in enumerate(names)
    ]
    for n, name in enumerate(names, 1):
        node = n << ELEMENT_BITS
        assert text_at(element, node) == f"<{n - 1}\u00e9"
        assert attribute_name(element, node) == name.removeprefix("p:")


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        (b"<a>" * 257 + b"</a>" * 257, "Excessive depth in document: 256, line 1"),
        (b"<a>" + b"x" * 10_500_000 + b"</a>", "Text node too long, line 1"),
        (b"<a b='" + b"x" * 10_500_000 + b"'/>", "Buffer size limit exceeded, line 1"),
        (b"<" + b"a" * 60_000 + b"/>", "Name too long: NCName, line 1"),
        (b"<a><!--" + b"x" * 10_500_000 + b"--></a>", "Comment too big found, line 1"),
    ],
    ids=["depth", "text", "attribute", "name", "comment"],
)
def test_a_document_that_is_larger_than_the_parser_takes_is_not_said_to_be_ill_formed(
    xml: bytes, reason: str
) -> None:
    with pytest.raises(DocumentError) as told:
        parse_document(xml)
    assert str(told.value).startswith("larger than XML is parsed here: ")
    assert reason in str(told.value)
    assert "elements may be 256 deep" in str(told.value)


def test_the_reason_of_an_ill_formed_document_is_one_line_without_advice_to_programs() -> None:
    with pytest.raises(DocumentError, match=r"out of allowed range, line 1, column 4$"):
        parse_document(b"<a>\0</a>")
    laughs = b"".join(b"<!ENTITY a%d '%s'>" % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 9))
    with pytest.raises(DocumentError, match="amplification factor exceeded, line 1"):
        parse_document(b"<!DOCTYPE a [<!ENTITY a0 'ha'>" + laughs + b"]><a>&a8;</a>")
    parse_document(b"<a>" * 256 + b"</a>" * 256)


def declared(count: int, begin: int = 0) -> str:
    return " ".join(f"xmlns:p{n}='urn:{n}'" for n in range(begin, begin + count))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-7", "iso-8859-1"])
def test_namespaces_around_an_element_are_bounded(encoding: str) -> None:
    def parse(xml: str) -> None:
        parse_document(f"<?xml version='1.0' encoding='{encoding}'?>{xml}".encode(encoding))

    most = f"<a {declared(600)}><b {declared(400, 600)}><c/></b></a>"
    parse(most)
    parse("<a>" + f"<b {declared(600)}/>" * 9 + "</a>")
    for wrong in (
        f"<a {declared(1_001)}/>",
        most.replace("<c/>", "<c><d xmlns:more='urn:m'/></c>"),
    ):
        with pytest.raises(DocumentError, match="more than 1,000 namespaces are declared around"):
            parse(wrong)
