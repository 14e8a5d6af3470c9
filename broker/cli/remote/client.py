"""The client by which commands use a running service: its address, the token, its responses.

In: an address or a state directory, requests. Out: answers, or Failed with what to do about it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from broker.cli.remote.answers import asked_to_wait, no_broker, object_of, objects_of, problem_of
from broker.cli.remote.finding import Patience, address_in
from broker.cli.shared import Failed, Wrong

if TYPE_CHECKING:
    # Imported where a request is made: options, and whether there is a service, need no client.
    import httpx

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
        self.retry_after = asked_to_wait(response)
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
        here = host in ("127.0.0.1", "localhost", "::1")
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=httpx.Timeout(60.0, connect=5.0),
                # What listens on this machine is reached without a proxy, whatever the environment
                # says.
                trust_env=not here,
                # To read the certificates of this machine takes longer than most commands.
                verify=not (here and self.url.startswith("http://")),
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise Wrong(
                "the proxy that the environment names (ALL_PROXY, HTTP_PROXY, HTTPS_PROXY) "
                f"cannot be used: {error}; name another one, or add {host} to NO_PROXY"
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
            problem = problem_of(response)
            if problem.get("type", "").endswith(":starting") and wait and time.monotonic() < end:
                time.sleep(min(2.0, asked_to_wait(response)))
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
            raise no_broker(response, f"status {response.status_code}")

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
                    raise self._refused(response, problem_of(response))
                if not response.headers.get("content-type", "").startswith(headers["Accept"]):
                    raise no_broker(response, f"something that is no {headers['Accept']}")
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
                "service's state directory (--state), or of its setting server.token "
                "(--token-file, or the variable BROKER_TOKEN)"
            )
        elif kind == "draining":
            detail = f"the service is stopping: {detail}; it accepts again once it is back"
        elif kind == "starting":
            detail = f"the service is still starting: {detail}"
        elif kind == "xscl":
            found = [e.get("rendered") or e.get("message") for e in problem.get("errors", [])]
            detail = "\n\n".join(["the service does not accept it", *filter(None, found)])
        return Refused(detail, response, problem)


def part(name: str) -> str:
    """A name as a part of a path. Raises Wrong for one that no path can hold."""
    if name in ("", ".", "..") or "/" in name:
        raise Wrong(f"{name!r} cannot be a name: names hold more than dots, and no /")
    return quote(name, safe="")
