"""Documents that are none: what is said of them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable

import pytest

from xscl.stage1.document import DocumentError, parse_document


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
