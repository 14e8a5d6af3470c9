"""Copies of a state while it runs, one at a time, and a new state from a copy.

A copy is a directory of the three files, the token, and a manifest that is written last and says
what belongs to it: a copy without one was not finished, and one whose files are not as it says was
damaged. Both are refused.

The engine is copied first and nothing is trimmed meanwhile, so the spool's copy holds all that the
engine's has not applied; the mailbox is copied last, so it has all that the engine's outbox has
not.

What a client read after the copy was made, it read under numbers that a restored mailbox would give
again to other matches. So a restored one goes on with numbers far behind those.
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
from broker.service.core.answers import BackedUp
from broker.service.core.core import RESTORING, Core
from broker.service.core.errors import Conflict, DiskFull, Invalid
from broker.state.disk import free, sync, write_private

MANIFEST = "backup.json"
FILES = ("broker.duckdb", "spool.sqlite", "mailbox.sqlite")
TOKEN = "token"
_FORM = 1
"""Of the manifest."""
_PIECE = 4 << 20
"""Bytes that are read at once."""
_ONE_AT_A_TIME = threading.Lock()
"""Held from the look whether a directory is empty until what is written there is complete."""


def back_up(core: Core, directory: Path) -> BackedUp:
    """Copy the state into a directory that is new or empty, which only its owner may read.

    Raises Conflict for another directory, DiskFull, and the errors of the files. What is published
    meanwhile is taken, but not matched until the copy is there.
    """
    try:
        with _ONE_AT_A_TIME:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise Conflict(f"{directory}: not empty; a backup needs a directory of its own")
            return _copied(core, directory)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFull(f"{directory}: no room for a backup") from None
        raise Conflict(f"{directory}: {error.strerror or error}") from None


def _copied(core: Core, directory: Path) -> BackedUp:
    needed = sum((core.state / name).stat().st_size for name in FILES)
    if free(directory) < needed:
        raise DiskFull(f"{directory}: {needed >> 20:,} MiB are needed for a backup")
    with core.lock, core.untrimmed():
        at, position = core.now(), core.position
        core.engine.store.backup(directory)
        core.spool.backup(directory / "spool.sqlite")
        core.mailbox.backup(directory / "mailbox.sqlite")
    if (core.state / TOKEN).exists():
        shutil.copy(core.state / TOKEN, directory / TOKEN)
        sync(directory / TOKEN)
    files = {path.name: _described(path) for path in sorted(directory.iterdir())}
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
    """Make a new state from a copy. It is there entirely, or not at all: killed while it moves
    files into a directory that was there, it leaves one that no service starts on. `on_bytes` hears
    how many bytes were read, which are those of each file twice.

    Raises Conflict where the state exists and is not empty, Invalid for what is no whole copy.
    """
    manifest = _manifest(directory)
    state = Path(os.path.realpath(state))  # of a link it is the directory that is filled
    there = state.exists()
    if there and not (state.is_dir() and all(path.name == RESTORING for path in state.iterdir())):
        raise Conflict(f"{state}: not empty; restore into a directory of its own")
    for name, entry in manifest["files"].items():
        path = directory / name
        if not path.is_file() or _described(path, on_bytes) != entry:
            raise Invalid(f"{path}: not as it was written; the backup is damaged")
    # A directory that is there may be where a volume is mounted, or all that its owner may write
    # to: it is neither replaced, nor is anything put beside it.
    growing = state / RESTORING if there else state.with_name(f"{state.name}{RESTORING}")
    shutil.rmtree(growing, ignore_errors=True)
    try:
        _grow(directory, growing, manifest["files"], on_bytes)
        if there:
            _move_up(growing, state)
        else:
            growing.rename(state)
            sync(state.parent)
    except BaseException:
        shutil.rmtree(growing, ignore_errors=True)
        raise
    sizes = {name: entry["bytes"] for name, entry in manifest["files"].items()}
    return BackedUp(directory, manifest["at"], sizes)


def _grow(
    directory: Path, growing: Path, names: Iterable[str], on_bytes: Callable[[int], object]
) -> None:
    """Make a state from the files of a copy, in a new directory."""
    growing.mkdir(parents=True, mode=0o700)
    for name in names:
        with (directory / name).open("rb") as source, (growing / name).open("wb") as target:
            while piece := source.read(_PIECE):
                target.write(piece)
                on_bytes(len(piece))
        shutil.copymode(directory / name, growing / name)
        sync(growing / name)
    # Clients know numbers that the log gave out after the copy.
    with Mailbox(growing / "mailbox.sqlite") as mailbox:
        mailbox.skip_numbers()
    sync(growing)


def _move_up(growing: Path, state: Path) -> None:
    """Move what is in a directory into the one that holds it; all of it, or nothing."""
    sync(state)  # from here on it is known that this is no state yet, also after a power cut
    moved: list[Path] = []
    try:
        for path in sorted(growing.iterdir()):
            moved.append(path.rename(state / path.name))
        sync(state)
    except BaseException:
        for path in moved:
            path.unlink()
        raise
    growing.rmdir()
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
    if not set(FILES) <= files.keys() <= {*FILES, TOKEN}:
        raise Invalid(f"{path}: not the files of a state")
    return dict(manifest)


def _described(
    path: Path, on_bytes: Callable[[int], object] = lambda count: None
) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            on_bytes(len(piece))
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
