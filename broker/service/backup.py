"""Backups of a running state, one at a time, and restoring a state from a backup.

A backup is a directory with the three files, what is proven of them, the tokens, and a manifest
with their checksums, which is written last. A backup without a manifest is incomplete, and one
whose files differ from it is damaged. Both are refused.

What is proven is copied first, so that the copies of the files hold at least that. Then the engine
is copied, and the spool is not trimmed meanwhile, so the copy of the spool has all
documents that the copy of the engine has not applied. The mailbox is copied last, so it has all
matches that are no longer in the copied outbox.

Matches that clients read after the backup have numbers that a restored mailbox would assign again,
to other matches. So a restored mailbox continues with much higher numbers.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from broker.delivery import Mailbox
from broker.service.access.access import Access
from broker.service.core.agreement import PROOF
from broker.service.core.answers import BackedUp
from broker.service.core.core import RESTORING, Core
from broker.service.core.errors import Conflict, DiskFull, Invalid
from broker.state.disk import free, sync, write_private
from broker.state.store import StateError

MANIFEST = "backup.json"
OTHERS = frozenset({PROOF, "token", "access.sqlite"})
"""Files that a backup has besides, unless it is from before there were any."""
FILES = ("broker.duckdb", "spool.sqlite", "mailbox.sqlite")
TOKEN = "token"
_FORM = 1
"""The version of the manifest's format."""
_CHUNK = 4 << 20
"""Bytes that are read at once."""
_ONE_AT_A_TIME = threading.Lock()
"""Held from the check that a directory is empty until the backup in it is complete."""


def back_up(core: Core, access: Access, directory: Path) -> BackedUp:
    """Copy the state into a directory that is new or empty, which only its owner may read.

    Raises Conflict for another directory, DiskFull, and the errors of the files. Documents that are
    published meanwhile are accepted, and matched afterwards.
    """
    if directory.resolve().is_relative_to(core.state.resolve()):
        raise Conflict(f"{directory} is in the state directory, where only the service writes")
    try:
        with _ONE_AT_A_TIME:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise Conflict(f"{directory}: not empty; a backup needs a directory of its own")
            return _copy(core, access, directory)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFull(f"{directory}: no room for a backup") from None
        raise Conflict(f"{directory}: {error.strerror or error}") from None


def _copy(core: Core, access: Access, directory: Path) -> BackedUp:
    needed = sum((core.state / name).stat().st_size for name in FILES)
    if free(directory) < needed:
        raise DiskFull(f"{directory}: {needed >> 20:,} MiB are needed for a backup")
    with core.lock, core.packs.untrimmed():
        at, position = core.now(), core.position
        core.prove()
        shutil.copy(core.state / PROOF, directory / PROOF)
        sync(directory / PROOF)
        try:
            core.engine.store.backup(directory)
        except StateError as error:
            raise Conflict(str(error)) from None
        core.spool.backup(directory / "spool.sqlite")
        core.mailbox.backup(directory / "mailbox.sqlite")
    # Last: a subscription without an owner would be one of operators, an owner without one is none.
    access.backup(directory)
    if (core.state / TOKEN).exists():
        shutil.copy(core.state / TOKEN, directory / TOKEN)
        sync(directory / TOKEN)
    files = {path.name: _checksum(path) for path in sorted(directory.iterdir())}
    manifest = {
        "form": _FORM,
        "program": version("xml-stream-broker"),
        "at": at,
        "position": position,
        "files": files,
    }
    write_private(directory / MANIFEST, json.dumps(manifest, indent=2))
    return BackedUp(directory, at, {name: entry["bytes"] for name, entry in files.items()})


def restore(
    directory: Path, state: Path, on_bytes: Callable[[int], object] = lambda count: None
) -> BackedUp:
    """Create a state from a backup, completely or not at all: if the process is killed while it
    moves files into an existing directory, no service starts on that directory. `on_bytes` is
    called with the number of bytes read; each file is read twice.

    Raises Conflict if the state exists and is not empty, Invalid for an incomplete or damaged
    backup.
    """
    manifest = _manifest(directory)
    state = Path(os.path.realpath(state))  # of a link, the directory that it points to
    exists = state.exists()
    if exists and not (state.is_dir() and all(path.name == RESTORING for path in state.iterdir())):
        raise Conflict(f"{state}: not empty; restore into a directory of its own")
    for name, entry in manifest["files"].items():
        path = directory / name
        if not path.is_file() or _checksum(path, on_bytes) != entry:
            raise Invalid(f"{path}: not as it was written; the backup is damaged")
    # An existing directory may be a mount point, or the only one that the user may write to. So it
    # is not replaced, and nothing is written beside it.
    partial = state / RESTORING if exists else state.with_name(f"{state.name}{RESTORING}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        _fill(directory, partial, manifest["files"], on_bytes)
        if exists:
            _move_up(partial, state)
        else:
            partial.rename(state)
            sync(state.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sizes = {name: entry["bytes"] for name, entry in manifest["files"].items()}
    return BackedUp(directory, manifest["at"], sizes)


def _fill(
    directory: Path, partial: Path, names: Iterable[str], on_bytes: Callable[[int], object]
) -> None:
    """Create a state from the files of a backup, in a new directory."""
    partial.mkdir(parents=True, mode=0o700)
    for name in names:
        with (directory / name).open("rb") as source, (partial / name).open("wb") as target:
            while chunk := source.read(_CHUNK):
                target.write(chunk)
                on_bytes(len(chunk))
        shutil.copymode(directory / name, partial / name)
        sync(partial / name)
    # Clients may know numbers that the log assigned after the backup.
    with Mailbox(partial / "mailbox.sqlite") as mailbox:
        mailbox.skip_numbers()
    sync(partial)


def _move_up(partial: Path, state: Path) -> None:
    """Move all files of a directory into its parent, or none."""
    sync(state)  # so that the unfinished restore is recognised also after a power cut
    moved: list[Path] = []
    try:
        for path in sorted(partial.iterdir()):
            moved.append(path.rename(state / path.name))
        sync(state)
    except BaseException:
        for path in moved:
            path.unlink()
        raise
    partial.rmdir()
    sync(state)


def _manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        form, files = manifest["form"], manifest["files"]
    except FileNotFoundError:
        raise Invalid(f"{directory}: no backup, or one that was not finished") from None
    except (ValueError, KeyError, TypeError):
        raise Invalid(f"{path}: not the manifest of a backup") from None
    if form != _FORM:
        raise Invalid(f"{path}: form {form}, this program reads {_FORM}")
    if not set(FILES) <= files.keys() <= {*FILES, *OTHERS}:
        raise Invalid(f"{path}: not the files of a state")
    return dict(manifest)


def _checksum(path: Path, on_bytes: Callable[[int], object] = lambda count: None) -> dict[str, Any]:
    """The entry of a file in the manifest: its size and SHA-256."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            on_bytes(len(chunk))
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
