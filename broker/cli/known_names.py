"""The ids of subscriptions, channels and feeds, for the completion of a shell.

It runs at every Tab, so it imports no slow modules, hardly waits, and prints nothing on errors.
Channels and feeds are read from the state directory, subscriptions are requested from the service
that runs on it.
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
"""The environment variable that requests names; its value is their kind."""
BEGINNING = "_BROKER_BEGINNING"
"""The environment variable with the beginning of the name."""

_MOST = 500
_PATIENCE = 0.5
_COLUMNS = {
    "channels": ("mailbox.sqlite", "name", "channel"),
    "feeds": ("spool.sqlite", "url", "feed"),
}


def write_names() -> None:
    """Print the names that the environment requests, one per line."""
    kind, beginning = os.environ[KIND], os.environ.get(BEGINNING, "")
    state = Path(os.environ.get("BROKER_STATE") or "broker-state").expanduser()
    try:
        names = (
            _subscriptions(state, beginning)
            if kind == "subscriptions"
            else _stored_names(state, kind)
        )
        matching = [name for name in names if name.startswith(beginning) and name.isprintable()]
    except Exception:  # a message would disturb the line that the user is typing
        return
    sys.stdout.write("".join(f"{name}\n" for name in matching[:_MOST]))


def _stored_names(state: Path, kind: str) -> Iterable[str]:
    file, column, table = _COLUMNS[kind]
    path = (state / file).absolute()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.1)) as connection:
        rows = connection.execute(f"SELECT {column} FROM {table} ORDER BY {column}")
        return [str(name) for (name,) in rows]


def _subscriptions(state: Path, beginning: str) -> Iterable[str]:
    from http.client import HTTPConnection
    from urllib.parse import quote, urlsplit

    address = urlsplit(json.loads((state / "service.json").read_text(encoding="utf-8"))["url"])
    token = os.environ.get("BROKER_TOKEN") or (state / "token").read_text(encoding="utf-8")
    connection = HTTPConnection(address.hostname or "", address.port, timeout=_PATIENCE)
    path = f"/v1/subscriptions?limit={_MOST}&prefix={quote(beginning, safe='')}"
    with closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token.strip()}"})
        subscriptions = json.loads(connection.getresponse().read())
    return [str(subscription["id"]) for subscription in subscriptions]
