"""What the commands that use a service have in common: the options by which it is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from broker.cli.remote.client import Service
from broker.cli.remote.finding import Patience, token_of, waited_for
from broker.cli.shared import DEFAULT_STATE, DURATION, StateType

P = ParamSpec("P")
R = TypeVar("R")


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


def service_options(function: Callable[..., R]) -> Callable[..., R]:
    """Adds the options that say where the service is: `state`, `url` and `token_file`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS = (
    click.option(
        "--state",
        type=StateType(),
        envvar="BROKER_STATE",
        show_envvar=True,
        help=f"State directory of the service, on this machine; {DEFAULT_STATE} unless --url is "
        "given.",
    ),
    click.option(
        "--url", envvar="BROKER_URL", show_envvar=True, help="Address of the service elsewhere."
    ),
    click.option(
        "--token-file",
        envvar="BROKER_TOKEN_FILE",
        show_envvar=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="File with the token; the token itself may be in BROKER_TOKEN.",
    ),
)


def with_service(function: Callable[Concatenate[Service, P], R]) -> Callable[..., R]:
    """Adds the options that say where the service is; the function gets it as first argument.

    With the option of `patience_option` beside it, it is waited for.
    """

    @service_options
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
