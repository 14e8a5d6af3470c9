"""How commands talk to a running service: where it is, who they are, and what its answers mean.

In: an address or a state directory, requests. Out: answers, or Failed with what to do about it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import click
import httpx

from broker.cli.shared import Failed, StateType, Wrong, console

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_STATE = "broker-state"
"""Where `broker serve` keeps its state unless it is told otherwise."""

_PATIENCE = 30.0
"""Seconds for which a service that is starting is waited for."""


class Unreachable(Failed):
    """Nobody answered, or the answer broke off: what was asked for may have been done or not."""


class Refused(Failed):
    """The service answered that it does not do it. `problem` is its problem document (RFC 9457)."""

    def __init__(self, message: str, response: httpx.Response, problem: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = response.status_code
        self.retry_after = retry_after(response)
        self.kind = str(problem.get("type", "")).rpartition(":")[2]
        self.errors: list[dict[str, Any]] = problem.get("errors", [])
        self.code = 2 if self.status in (400, 422) else 1


class Service:
    """A running service. Every method raises Unreachable or Refused."""

    def __init__(self, url: str, token: str, known_by: str) -> None:
        self.url = url.rstrip("/")
        self._known_by = known_by
        try:
            host = httpx.URL(self.url).host
        except httpx.InvalidURL as error:
            raise Wrong(f"{url}: not an address ({error})") from None
        if not self.url.startswith(("http://", "https://")) or not host:
            raise Wrong(f"{url}: not an address (write it as http://host:port)")
        if not token.isascii() or not token.isprintable():
            raise Wrong("the token is not one line of printable ASCII characters")
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(60.0, connect=5.0),
            # What listens on this machine is reached without a proxy, whatever the environment says.
            trust_env=host not in ("127.0.0.1", "localhost", "::1"),
        )

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, path: str, *, wait: bool = True, **options: Any) -> httpx.Response:
        """A request and its answer; with `wait`, a service that is starting is waited for.

        `options` are those of httpx: params (None is left out), json, content, headers, timeout.
        """
        if "params" in options:
            options["params"] = {k: v for k, v in options["params"].items() if v is not None}
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                response = self._http.request(method, path, **options)
            except httpx.HTTPError as error:
                raise self._unreachable(error) from None
            problem = _problem(response)
            if problem.get("type", "").endswith(":starting") and wait and time.monotonic() < end:
                time.sleep(min(2.0, retry_after(response)))
                continue
            if response.is_success:
                return response
            raise self._refused(response, problem)

    def get(self, path: str, **params: Any) -> Any:
        """The JSON at a path."""
        return _json(self.ask("GET", path, params=params))

    def post(self, path: str, body: Any = None, timeout: float | None = None) -> Any:
        """Post JSON; the JSON that comes back, None if nothing does. Long work needs no timeout."""
        wait = httpx.Timeout(timeout, connect=5.0)
        response = self.ask("POST", path, json=body, timeout=wait)
        return _json(response) if response.content else None

    @contextmanager
    def stream(
        self, path: str, headers: Mapping[str, str], **params: Any
    ) -> Iterator[httpx.Response]:
        """An answer that goes on; silence of a minute means that the connection is lost."""
        options = {k: v for k, v in params.items() if v is not None}
        try:
            with self._http.stream("GET", path, params=options, headers=dict(headers)) as response:
                if not response.is_success:
                    response.read()
                    raise self._refused(response, _problem(response))
                yield response
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return Unreachable(f"no service answers at {self.url} ({self._known_by})")
        if isinstance(error, httpx.TimeoutException):
            return Unreachable(f"{self.url} did not answer in time; broker status may tell why")
        return Unreachable(f"the connection to {self.url} broke: {error or type(error).__name__}")

    def _refused(self, response: httpx.Response, problem: Mapping[str, Any]) -> Refused:
        if not problem:
            text = f"{self.url} answers with status {response.status_code}, not as a broker does"
            return Refused(text, response, problem)
        detail = str(problem.get("detail") or problem.get("title") or response.status_code)
        kind = str(problem.get("type", "")).rpartition(":")[2]
        if kind == "unauthorized":
            detail = (
                f"{self.url} does not take the token: give --state with the "
                "directory of the service, --token-file, or the variable BROKER_TOKEN"
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
    return found if isinstance(found, dict) else {}


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise Failed(f"{response.url} answers with something that is no JSON") from None


def retry_after(response: httpx.Response) -> float:
    """How many seconds the service asks to wait; one where it does not say."""
    try:
        return max(0.1, float(response.headers.get("retry-after", "1")))
    except ValueError:
        return 1.0


def part(name: str) -> str:
    """A name as a part of a path. Raises Wrong for one that no path can hold."""
    if name in ("", ".", "..") or "/" in name:
        raise Wrong(f"{name!r} cannot be a name: names hold more than dots, and no /")
    return quote(name, safe="")


# -- finding the service ---------------------------------------------------------------------


def find(url: str | None, state: Path | None, token_file: Path | None) -> Service:
    """The service at an address, or that of a state directory, with its token."""
    known_by = "--url" if url else ""
    if url is None:
        directory = Path(DEFAULT_STATE) if state is None else state
        url = _address_in(directory, given=state is not None)
        known_by = (
            f"from {directory / 'service.json'}; start it with: broker serve --state {directory}"
        )
        state = directory
    return Service(url, _token(state, token_file), known_by)


def _address_in(state: Path, *, given: bool) -> str:
    try:
        told = json.loads((state / "service.json").read_text(encoding="utf-8"))
        return str(told["url"])
    except FileNotFoundError:
        other = "" if given else ", or say where it is with --state or --url"
        raise Failed(
            f"no service runs on {state}: start it with broker serve --state {state}{other}"
        ) from None
    except OSError as error:
        raise Failed(f"{state / 'service.json'}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Failed(
            f"{state / 'service.json'}: not as the service writes it; restart it"
        ) from None


def _token(state: Path | None, token_file: Path | None) -> str:
    if token_file is None and os.environ.get("BROKER_TOKEN"):
        return os.environ["BROKER_TOKEN"].strip()
    path = token_file or (state / "token" if state is not None else None)
    if path is None:
        raise Wrong("a token is needed: give --state, --token-file or the variable BROKER_TOKEN")
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        if token_file is None:
            raise Wrong(
                f"{path} is not there: the service has a token of its settings; "
                "give it with --token-file or the variable BROKER_TOKEN"
            ) from None
        raise Wrong(f"{path}: no such file") from None
    except PermissionError:
        raise Failed(f"{path}: only the user that runs the service may read it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path}: {error}") from None


def with_service(function: Callable[Concatenate[Service, P], R]) -> Callable[..., R]:
    """Adds the options that say where the service is; the function gets it as first argument."""

    @click.option(
        "--state",
        type=StateType(),
        envvar="BROKER_STATE",
        show_envvar=True,
        help=f"State directory of the service, on this machine; {DEFAULT_STATE} unless --url is given.",
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
        service = find(url, state, token_file)
        try:
            return function(service, *args, **rest)
        finally:
            service.close()

    return command


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "jsonl"]),
    default="text",
    show_default=True,
    help="A table for people, or a line of JSON each.",
)


def echo_json(value: object) -> None:
    """One line of JSON on standard output."""
    click.echo(json.dumps(value, ensure_ascii=False))


def say(text: str) -> None:
    """A message on standard error."""
    console.print(text, markup=False)
