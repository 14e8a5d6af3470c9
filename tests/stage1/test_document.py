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
