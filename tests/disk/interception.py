"""Replaces functions of the C library in this process, for all libraries that are loaded in it.

A shared library calls `pwrite` and the like through tables of addresses that the loader has filled
(ELF: relocations of symbols). `replace` finds the entries of all libraries for a function and puts
the address of a Python function there. So no compiler is needed, and nothing but this process is
changed. It works with glibc on Linux, on 64-bit machines of Intel, AMD and ARM.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any

_JUMPS = {
    # R_X86_64_64, GLOB_DAT and JUMP_SLOT; R_AARCH64_ABS64, GLOB_DAT and JUMP_SLOT.
    "x86_64": frozenset({1, 6, 7}),
    "aarch64": frozenset({257, 1025, 1026}),
}
_PT_DYNAMIC = 2
_PLTRELSZ, _STRTAB, _SYMTAB, _RELA, _RELASZ, _JMPREL = 2, 5, 6, 7, 8, 23
_RELOCATION = 24
"""Bytes of an entry: where, which symbol and kind, and an addend."""
_SYMBOL = 24
_PAGE = 4096
_READ_WRITE = 3
_OURS = ("libc.so", "libc-", "ld-linux", "libffi", "_ctypes", "libpthread", "linux-vdso")
"""Libraries that keep their own: the functions themselves, and what calls ours."""


class _Header(ctypes.Structure):
    """ElfW(Phdr)."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("in_file", ctypes.c_uint64),
        ("in_memory", ctypes.c_uint64),
        ("alignment", ctypes.c_uint64),
    )


class _Loaded(ctypes.Structure):
    """struct dl_phdr_info."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.POINTER(_Header)),
        ("count", ctypes.c_uint16),
    )


_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.c_void_p)
LIBC: Any = ctypes.CDLL(None, use_errno=True)


def possible() -> str | None:
    """Why it is not possible here; None if it is."""
    if sys.platform != "linux" or platform.machine() not in _JUMPS:
        return f"calls cannot be intercepted on {sys.platform} {platform.machine()}"
    if not platform.libc_ver()[0].startswith("glibc"):
        return "calls can be intercepted with glibc only"
    return None


def replace(functions: dict[str, Any]) -> list[str]:
    """Have all libraries that are loaded call these functions, made by `ctypes.CFUNCTYPE`, in the
    place of those of the C library with these names; returns the names that were found somewhere.
    The functions must never be deleted. RuntimeError if a page cannot be written."""
    found: set[str] = set()
    for base, dynamic in _libraries():
        for slot, name in _slots(base, dynamic, functions.keys()):
            address = ctypes.cast(functions[name], ctypes.c_void_p).value
            page = slot // _PAGE * _PAGE
            size = ctypes.c_size_t(2 * _PAGE if slot + 8 > page + _PAGE else _PAGE)
            if LIBC.mprotect(ctypes.c_void_p(page), size, _READ_WRITE):
                raise RuntimeError(f"the table of {name} cannot be written")
            ctypes.c_uint64.from_address(slot).value = address or 0
            found.add(name)
    return sorted(found)


def _libraries() -> list[tuple[int, int]]:
    """By library that is loaded, the base and the address of its dynamic section."""
    found: list[tuple[int, int]] = []

    def visit(loaded: Any, size: int, data: object) -> int:
        info = loaded.contents
        name = (info.name or b"").decode().rsplit("/", 1)[-1]
        if not name.startswith(_OURS):
            for number in range(info.count):
                header = info.headers[number]
                if header.kind == _PT_DYNAMIC:
                    found.append((info.base, info.base + header.address))
        return 0

    LIBC.dl_iterate_phdr(_Visit(visit), None)
    return found


def _slots(base: int, dynamic: int, names: Any) -> Iterator[tuple[int, str]]:
    """Where a library has the addresses of these functions."""
    tags: dict[int, int] = {}
    while tag := ctypes.c_uint64.from_address(dynamic).value:
        tags[tag] = ctypes.c_uint64.from_address(dynamic + 8).value
        dynamic += 16
    if _SYMTAB not in tags or _STRTAB not in tags:
        return

    def address(tag: int) -> int:
        # glibc makes the offsets of most libraries addresses.
        return tags[tag] if tags[tag] >= base else base + tags[tag]

    for table, size in ((_RELA, _RELASZ), (_JMPREL, _PLTRELSZ)):
        if table not in tags:
            continue
        entries = ctypes.string_at(address(table), tags[size])
        for at in range(0, len(entries), _RELOCATION):
            symbol = int.from_bytes(entries[at + 12 : at + 16], "little")
            if not symbol:
                continue
            kind = int.from_bytes(entries[at + 8 : at + 12], "little")
            if kind not in _JUMPS[platform.machine()]:
                continue
            text = ctypes.c_uint32.from_address(address(_SYMTAB) + _SYMBOL * symbol).value
            name = ctypes.string_at(address(_STRTAB) + text).decode()
            if name in names:
                yield base + int.from_bytes(entries[at : at + 8], "little"), name


def original(name: str, result: Any, *arguments: Any) -> Callable[..., int]:
    """A function of the C library itself."""
    prototype = ctypes.CFUNCTYPE(result, *arguments, use_errno=True)
    function: Callable[..., int] = prototype((name, LIBC))
    return function
