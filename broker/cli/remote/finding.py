"""Finds the address and the token of a service, and waits for a service that is not running.

In: a state directory, files, the environment. Out: an address, a token, or Failed with what to do.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from broker.cli.shared import Failed, Wrong, console
from broker.text.units import format_duration

_LOOK = 0.25
"""Seconds between two checks whether the service is running."""


class NoService(Failed):
    """No service runs on the state directory."""


class Patience:
    """The time, in seconds, to wait for a service that is not running; it may be restarting."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._end: float | None = None

    def lasts(self, why: str) -> bool:
        """Wait for a moment, and print why the first time; False when the time is up."""
        now = time.monotonic()
        if self._end is None:
            self._end = now + self.seconds
            if self.seconds:
                most = format_duration(int(self.seconds * 1_000_000))
                console.print(f"{why}; waiting up to {most} for it")
        if now >= self._end:
            return False
        time.sleep(min(_LOOK, self._end - now))
        return True

    def renew(self) -> None:
        """The service has been reached: the next wait begins anew."""
        self._end = None


def waited_for(state: Path, given: bool, patience: Patience) -> str:
    """The address of the service on a state directory, once it runs. `given`: by the user."""
    while True:
        try:
            return address_in(state, given=given)
        except NoService:
            if not patience.lasts(f"no service runs on {state}"):
                raise


def address_in(state: Path, *, given: bool) -> str:
    """The address of the service that runs on a state directory now. Raises NoService."""
    try:
        reply = json.loads((state / "service.json").read_text(encoding="utf-8"))
        return str(reply["url"])
    except FileNotFoundError:
        other = "" if given else ", or say where it is with --state or --url"
        raise NoService(
            f"no service runs on {state}: start it with broker serve --state {state}{other}"
        ) from None
    except PermissionError:
        raise Failed(
            f"{state / 'service.json'}: only the user that runs the service may read it; as "
            "another one give --url, and --token-file or the variable BROKER_TOKEN"
        ) from None
    except OSError as error:
        raise Failed(f"{state / 'service.json'}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Failed(
            f"{state / 'service.json'}: not as the service writes it; restart it"
        ) from None


def token_of(state: Path | None, token_file: Path | None) -> tuple[str, str]:
    """The token, and its origin for messages."""
    if token_file is None and (token := os.environ.get("BROKER_TOKEN", "").strip()):
        return token, "in BROKER_TOKEN"
    path = token_file or (state / "token" if state is not None else None)
    if path is None:
        raise Wrong(
            "a token is needed: give --state with the state directory of the service, or the token "
            "of its setting server.token with --token-file or the variable BROKER_TOKEN"
        )
    try:
        token = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        if token_file is None:
            raise Wrong(
                f"{path} is not there: the service has a token of its settings, server.token or "
                "server.token_file; give it with --token-file or the variable BROKER_TOKEN"
            ) from None
        raise Wrong(f"{path}: no such file") from None
    except PermissionError:
        raise Failed(f"{path}: only the user that runs the service may read it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path}: {error}") from None
    if not token:
        raise Failed(f"{path}: there is no token in it")
    return token, f"in {path}"
