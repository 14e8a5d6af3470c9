"""The ids of subscriptions, channels and feeds, for the completion of a shell.

A shell asks at every Tab, so this imports nothing that is slow, waits for nobody, and says nothing
where there is no state: the channels and feeds are read from the state directory, the subscriptions
are asked of the service that runs on it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

KIND = "_BROKER_NAMES"
"""The variable of the environment by which a shell asks, and in it what for."""
BEGINNING = "_BROKER_BEGINNING"
"""The variable with what has been typed of a name."""

_MOST = 500
_PATIENCE = 0.5
_COLUMNS = {
    "channels": ("mailbox.sqlite", "name", "channel"),
    "feeds": ("spool.sqlite", "url", "feed"),
}


def tell() -> None:
    """Write the names that the environment asks for, one a line."""
    kind, beginning = os.environ[KIND], os.environ.get(BEGINNING, "")
    state = Path(os.environ.get("BROKER_STATE") or "broker-state").expanduser()
    try:
        known = _asked(state, beginning) if kind == "subscriptions" else _stored(state, kind)
        found = [name for name in known if name.startswith(beginning) and name.isprintable()]
    except Exception:  # nobody wants to read of it on the line that they are typing
        return
    sys.stdout.write("".join(f"{name}\n" for name in found[:_MOST]))


def _stored(state: Path, kind: str) -> Iterable[str]:
    file, column, table = _COLUMNS[kind]
    path = (state / file).absolute()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.1)) as connection:
        rows = connection.execute(f"SELECT {column} FROM {table} ORDER BY {column}")
        return [str(name) for (name,) in rows]


def _asked(state: Path, beginning: str) -> Iterable[str]:
    from http.client import HTTPConnection
    from urllib.parse import quote, urlsplit

    address = urlsplit(json.loads((state / "service.json").read_text(encoding="utf-8"))["url"])
    token = os.environ.get("BROKER_TOKEN") or (state / "token").read_text(encoding="utf-8")
    connection = HTTPConnection(address.hostname or "", address.port, timeout=_PATIENCE)
    path = f"/v1/subscriptions?limit={_MOST}&prefix={quote(beginning, safe='')}"
    with closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token.strip()}"})
        told = json.loads(connection.getresponse().read())
    return [str(each["id"]) for each in told]
