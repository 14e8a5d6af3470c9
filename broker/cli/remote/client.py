"""The client by which commands use a running service: its address, the token, its responses.

In: an address or a state directory, requests. Out: answers, or Failed with what to do about it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import click
from click.core import ParameterSource

from broker.cli.remote.finding import DEFAULT_STATE, Patience, address_in, token_of, waited_for
from broker.cli.shared import DURATION, Failed, StateType, Wrong, console
from feeds.schedule import retry_after

if TYPE_CHECKING:
    # Imported where a request is made: options, and whether there is a service, need no client.
    import httpx

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE = 30.0
"""Seconds for which a service that is starting is waited for."""


class Unreachable(Failed):
    """Nobody answered, or the answer broke off: what was asked for may have been done or not."""

    ends_all = True


class Refused(Failed):
    """The service answered that it does not do it. `problem` is its problem document (RFC 9457)."""

    def __init__(self, message: str, response: httpx.Response, problem: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = response.status_code
        self.retry_after = _asked_to_wait(response)
        self.kind = str(problem.get("type", "")).rpartition(":")[2]
        self.errors: list[dict[str, Any]] = problem.get("errors", [])
        self.code = 2 if self.status in (400, 422) else 1


class Service:
    """A running service. Every method raises Unreachable or Refused.

    `state` is the directory by which it was found: restarted it may have another address.
    `patience` is for what waits for one that is not there.
    """

    def __init__(
        self,
        url: str,
        token: str,
        token_from: str,
        known_by: str,
        state: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        import httpx

        self.url = url.rstrip("/")
        self.patience = patience or Patience()
        self._token_from = token_from
        self._state = state
        self._known_by = known_by
        try:
            host = httpx.URL(self.url).host
        except httpx.InvalidURL as error:
            raise Wrong(f"{url}: not an address ({error})") from None
        if not self.url.startswith(("http://", "https://")) or not host:
            raise Wrong(f"{url}: not an address (write it as http://host:port)")
        if not token.isascii() or not token.isprintable():
            raise Wrong("the token is not one line of printable ASCII characters")
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=httpx.Timeout(60.0, connect=5.0),
                # What listens on this machine is reached without a proxy, whatever the environment
                # says.
                trust_env=host not in ("127.0.0.1", "localhost", "::1"),
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise Wrong(
                "the proxy that the environment names (ALL_PROXY, HTTP_PROXY, HTTPS_PROXY) cannot "
                "be "
                f"used: {error}; name another one, or add {host} to NO_PROXY"
            ) from None

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, *, wait: bool = True, **options: Any) -> httpx.Response:
        """A request and its answer; with `wait`, a service that is starting is waited for, and one
        that is not there for as long as `patience` lasts.

        `options` are those of httpx: params (None is left out), json, content, headers, timeout.
        """
        import httpx

        if "params" in options:
            options["params"] = {k: v for k, v in options["params"].items() if v is not None}
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                response = self._http.request(method, path, **options)
            except httpx.HTTPError as error:
                gone = self._unreachable(error)
                # Where there was no connection, nothing was asked for yet.
                unheard = isinstance(error, httpx.ConnectError)
                if wait and unheard and self.patience.lasts(str(gone)):
                    continue
                raise gone from None
            self.patience.renew()
            problem = _problem(response)
            if problem.get("type", "").endswith(":starting") and wait and time.monotonic() < end:
                time.sleep(min(2.0, _asked_to_wait(response)))
                continue
            if response.is_success:
                return response
            raise self._refused(response, problem)

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """The object at a path."""
        return object_of(self.ask("GET", path, params=params))

    def get_list(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """The objects at a path."""
        return objects_of(self.ask("GET", path, params=params))

    def post(self, path: str, body: Any = None, timeout: float | None = None) -> httpx.Response:
        """Post JSON; the answer. Long work needs no timeout."""
        import httpx

        wait = httpx.Timeout(timeout, connect=5.0)
        return self.ask("POST", path, json=body, timeout=wait)

    def delete(self, path: str, **params: Any) -> None:
        """Delete what is at a path."""
        response = self.ask("DELETE", path, params=params)
        if response.status_code != 204:
            raise _no_broker(response, f"status {response.status_code}")

    @contextmanager
    def stream(
        self, path: str, headers: Mapping[str, str], **params: Any
    ) -> Iterator[httpx.Response]:
        """An answer that goes on, of the type that `headers` accept; silence of a minute means that
        the connection is lost."""
        import httpx

        options = {k: v for k, v in params.items() if v is not None}
        self._look()
        try:
            with self._http.stream("GET", path, params=options, headers=dict(headers)) as response:
                if not response.is_success:
                    response.read()
                    raise self._refused(response, _problem(response))
                if not response.headers.get("content-type", "").startswith(headers["Accept"]):
                    raise _no_broker(response, f"something that is no {headers['Accept']}")
                self.patience.renew()
                yield response
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _look(self) -> None:
        """Where it is now: restarted it may have another address."""
        import httpx

        if self._state is not None:
            with suppress(Failed, httpx.InvalidURL):
                self.url = address_in(self._state, given=True).rstrip("/")
                self._http.base_url = httpx.URL(self.url)

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        import httpx

        url = self.url
        self._look()
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return Unreachable(f"no service answers at {url} ({self._known_by})")
        if isinstance(error, httpx.TimeoutException):
            return Unreachable(f"{url} did not answer in time; broker status may tell why")
        return Unreachable(f"the connection to {url} broke: {error or type(error).__name__}")

    def _refused(self, response: httpx.Response, problem: Mapping[str, Any]) -> Refused:
        if not problem:
            text = f"{self.url} answers with status {response.status_code}, not as a broker does"
            return Refused(text, response, problem)
        detail = str(problem.get("detail") or problem.get("title") or response.status_code)
        kind = str(problem.get("type", "")).rpartition(":")[2]
        if kind == "unauthorized":
            detail = (
                f"{self.url} does not take the token {self._token_from}: give that of the "
                "service's "
                "state directory (--state), or of its setting server.token (--token-file, or the "
                "variable BROKER_TOKEN)"
            )
        elif kind == "draining":
            detail = f"the service is stopping: {detail}; it accepts again once it is back"
        elif kind == "starting":
            detail = f"the service is still starting: {detail}"
        elif kind == "xscl":
            found = [e.get("rendered") or e.get("message") for e in problem.get("errors", [])]
            detail = "\n\n".join(["the service does not accept it", *filter(None, found)])
        return Refused(detail, response, problem)


def _problem(response: httpx.Response) -> dict[str, Any]:
    if not response.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        found = response.json()
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    errors = found.get("errors")
    listed = errors if isinstance(errors, list) else []
    return found | {
        "type": str(found.get("type", "")),
        "errors": [error for error in listed if isinstance(error, dict)],
    }


class _Told(dict[str, Any]):
    """An object in an answer: what it lacks it has not from a broker of this version."""

    def __missing__(self, name: str) -> Any:
        raise Failed(
            f'what answers is no broker, or one of another version: "{name}" is missing in its '
            "answer"
        )


_DECODER = json.JSONDecoder(object_hook=_Told)


def object_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON object of an answer. Raises Failed where it is none, and where something is read in
    it that it does not have."""
    return _object(response, _json(response, response.text))


def objects_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The objects of a JSON array, as `object_of`."""
    return _objects(response, _json(response, response.text))


def lines_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The objects of lines of JSON, as `object_of`."""
    return lines_as_objects(response, [line for line in response.text.split("\n") if line])


def lines_as_objects(response: httpx.Response, lines: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of some lines of JSON, as `object_of`. They are decoded as one array, in half the
    time."""
    return _objects(response, _json(response, f"[{','.join(lines)}]"))


def lines_in(response: httpx.Response) -> Iterator[list[str]]:
    """The lines of an answer as they come in, some at a time. Other than for `iter_lines`, which
    follows Unicode, a line feed alone ends one."""
    rest = b""
    for piece in response.iter_bytes():
        *whole, rest = (rest + piece).split(b"\n")
        if whole:
            yield [line.decode() for line in whole]
    if rest:
        yield [rest.decode()]


def line_of(response: httpx.Response, line: str) -> dict[str, Any]:
    """The object of one line of JSON, as `object_of`."""
    return _object(response, _json(response, line))


def _json(response: httpx.Response, text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise _no_broker(response, "something that is no JSON") from None


def _objects(response: httpx.Response, found: Any) -> list[dict[str, Any]]:
    if not isinstance(found, list):
        raise _no_broker(response, "JSON of another form")
    return [_object(response, each) for each in found]


def _object(response: httpx.Response, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise _no_broker(response, "JSON of another form")
    return found


def _no_broker(response: httpx.Response, found: str) -> Failed:
    return Failed(f"{response.url} answers with {found}, not as a broker does: look at the address")


def _asked_to_wait(response: httpx.Response) -> float:
    """How many seconds the service asks to wait; one where it does not say."""
    seconds = retry_after(response.headers.get("retry-after", ""), time.time())
    return 1.0 if seconds is None else max(0.1, seconds)


def part(name: str) -> str:
    """A name as a part of a path. Raises Wrong for one that no path can hold."""
    if name in ("", ".", "..") or "/" in name:
        raise Wrong(f"{name!r} cannot be a name: names hold more than dots, and no /")
    return quote(name, safe="")


# -- finding the service ---------------------------------------------------------------------


def find(
    url: str | None, state: Path | None, token_file: Path | None, patience: Patience
) -> Service:
    """The service at an address, or that of a state directory, with its token."""
    known_by = "--url" if url else ""
    found_by = None
    if url is None:
        directory = found_by = Path(DEFAULT_STATE) if state is None else state
        url = waited_for(directory, state is not None, patience)
        known_by = (
            f"from {directory / 'service.json'}; start it with: broker serve --state {directory}"
        )
        state = directory
    token, token_from = token_of(state, token_file)
    return Service(url, token, token_from, known_by, found_by, patience)


def with_service(function: Callable[Concatenate[Service, P], R]) -> Callable[..., R]:
    """Adds the options that say where the service is; the function gets it as first argument.

    With the option of `patience_option` beside it, it is waited for.
    """

    @click.option(
        "--state",
        type=StateType(),
        envvar="BROKER_STATE",
        show_envvar=True,
        help=f"State directory of the service, on this machine; {DEFAULT_STATE} unless --url is "
        "given.",
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
        *args: Any,
        url: str | None,
        state: Path | None,
        token_file: Path | None,
        patience: int = 0,
        **rest: Any,
    ) -> R:
        service = find(url, state, token_file, Patience(_seconds(patience, url or state)))
        try:
            return function(service, *args, **rest)
        finally:
            service.close()

    return command


def _seconds(patience: int, where: str | Path | None) -> float:
    """Where there is no state of a service, none is waited for unless that was asked for."""
    asked = click.get_current_context().get_parameter_source("patience")
    if asked is ParameterSource.DEFAULT and not isinstance(where, str):
        state = where or Path(DEFAULT_STATE)
        # Unlike Path.exists it does not raise if permission is denied.
        if not os.path.exists(state / "broker.duckdb"):
            return 0.0
    return patience / 1_000_000


def patience_option(default: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The option of a command that may be given while the service restarts."""
    return click.option(
        "--patience",
        type=DURATION,
        default=default,
        show_default=True,
        help="How long to wait for a service that is not there, 0 for not at all: it may restart.",
    )


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "table", "jsonl", "csv"]),
    default="text",
    show_default=True,
    help="A table for people (text and table are one), a line of JSON each, or CSV with a header.",
)


def echo_json(value: object) -> None:
    """One line of JSON on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False))


def say(text: str) -> None:
    """A message on standard error."""
    console.print(text)
