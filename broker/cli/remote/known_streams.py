"""Where commands look at streams: in the running service, or in a state on which none runs.

Both give the JSON of the API.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import click

from broker import advice
from broker.cli.remote.client import Refused, Service, part
from broker.cli.remote.finding import NoService, Patience
from broker.cli.remote.options import find
from broker.cli.shared import DEFAULT_STATE, Failed, StateType
from broker.model import iso_time
from broker.price import FREQUENT
from broker.statistics.model import StreamSeen
from xscl.check.known import Look

if TYPE_CHECKING:
    from broker.statistics.streams import StreamCatalogue

P = ParamSpec("P")
R = TypeVar("R")


class KnownStreams(Protocol):
    """The streams of a service, or of a state."""

    def all(self) -> list[dict[str, Any]]:
        """Each stream with its number of documents, and since when."""

    def get(self, name: str, values: int) -> dict[str, Any] | None:
        """A stream with its label paths, None if it has no stored documents."""

    def suggest(self, names: Sequence[str], most: int) -> list[dict[str, Any]]:
        """Joins within a stream, or between several, best first."""

    def suggest_for(self, id: str, names: Sequence[str], most: int) -> list[dict[str, Any]] | None:
        """Joins of a stored document with others, None if it is not stored."""


class OfService:
    def __init__(self, service: Service) -> None:
        self._service = service

    def all(self) -> list[dict[str, Any]]:
        return self._service.get_list("/v1/streams")

    def get(self, name: str, values: int) -> dict[str, Any] | None:
        try:
            return self._service.get(f"/v1/streams/{part(name)}", values=values)
        except Refused as error:
            if error.kind == "not-found":
                return None
            raise

    def suggest(self, names: Sequence[str], most: int) -> list[dict[str, Any]]:
        return self._service.get_list("/v1/streams/suggestions", stream=[*names], limit=most)

    def suggest_for(self, id: str, names: Sequence[str], most: int) -> list[dict[str, Any]] | None:
        try:
            return self._service.get_list(
                "/v1/streams/suggestions", document=id, stream=[*names], limit=most
            )
        except Refused as error:
            if error.kind == "not-found":
                return None
            raise


class OfState:
    def __init__(self, catalogue: StreamCatalogue) -> None:
        self._catalogue = catalogue

    def all(self) -> list[dict[str, Any]]:
        return [
            {
                **each._asdict(),
                "since": iso_time(each.first),
                "until": iso_time(each.last),
            }
            for each in self._catalogue.streams()
        ]

    def get(self, name: str, values: int) -> dict[str, Any] | None:
        seen = self._catalogue.stream(name, values=values)
        return None if seen is None else seen.as_json()

    def suggest(self, names: Sequence[str], most: int) -> list[dict[str, Any]]:
        from broker.suggest import suggest

        return [each.as_json() for each in suggest(self._catalogue, names, most)]

    def suggest_for(self, id: str, names: Sequence[str], most: int) -> list[dict[str, Any]] | None:
        from broker.suggest import suggest_for

        found = self._catalogue.named(id)
        if not found:
            return None
        streams = names or [each.name for each in self._catalogue.streams()]
        return [each.as_json() for each in suggest_for(self._catalogue, found[0], streams, most)]


def seen_in(streams: KnownStreams, name: str) -> StreamSeen | None:
    """What is known of a stream, with its frequent values."""
    found = streams.get(name, FREQUENT)
    return None if found is None else StreamSeen.from_json(found)


def look_into(streams: KnownStreams) -> Look:
    """What the documents of a stream hold, for warnings about queries."""

    def find(name: str) -> StreamSeen | None:
        found = streams.get(name, 0)
        return None if found is None else StreamSeen.from_json(found)

    return advice.observed(find)


@contextmanager
def known_streams(
    url: str | None, state: Path | None, token_file: Path | None
) -> Iterator[KnownStreams]:
    """The streams of the service at an address or on a state directory, or, where none runs there,
    of the state itself. Raises Failed."""
    try:
        service = find(url, state, token_file, Patience(0.0))
    except NoService:
        directory = Path(DEFAULT_STATE) if state is None else state
        if not os.path.exists(directory / "broker.duckdb"):
            raise
        with _opened(directory) as catalogue:
            yield OfState(catalogue)
        return
    try:
        yield OfService(service)
    finally:
        service.close()


@contextmanager
def _opened(directory: Path) -> Iterator[StreamCatalogue]:
    from broker.state.store import StateError, Store
    from broker.statistics.streams import StreamCatalogue

    try:
        store = Store(directory)
    except StateError as error:
        raise Failed(str(error)) from None
    try:
        yield StreamCatalogue(store)
    finally:
        store.close()


def with_streams(function: Callable[Concatenate[KnownStreams, P], R]) -> Callable[..., R]:
    """Adds the options that say where the streams are; the function gets them first."""

    @click.option(
        "--state",
        type=StateType(),
        envvar="BROKER_STATE",
        show_envvar=True,
        help="State directory, of a service or of broker run; "
        f"{DEFAULT_STATE} unless --url is given.",
    )
    @click.option(
        "--url", envvar="BROKER_URL", show_envvar=True, help="Address of the service elsewhere."
    )
    @click.option(
        "--token-file",
        envvar="BROKER_TOKEN_FILE",
        show_envvar=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="File with the token; the token itself may be in BROKER_TOKEN.",
    )
    @wraps(function)
    def command(
        *args: Any, url: str | None, state: Path | None, token_file: Path | None, **rest: Any
    ) -> R:
        with known_streams(url, state, token_file) as streams:
            return function(streams, *args, **rest)

    return command
