"""`broker open`: the service in a browser, signed in with a one-time code."""

from __future__ import annotations

import sys
import webbrowser

import click

from broker.cli.remote.answers import object_of
from broker.cli.remote.client import Service
from broker.cli.remote.options import with_service
from broker.cli.shared import console


@click.command("open")
@click.option(
    "--print",
    "printed",
    is_flag=True,
    help="Only print the address and the code, for a browser on another machine.",
)
@with_service
def open_command(service: Service, printed: bool) -> None:
    """Show the service in a browser: matches as they are found, subscriptions, feeds.

    The browser is signed in by a code that works once, within two minutes; it stays signed in for a
    week, or until one signs out there. The token itself is not passed to it.

    \b
    broker open
    broker open --url https://broker.example.org --token-file token --print
    """
    made = object_of(service.post("/v1/sign-in-codes"))
    address = f"{service.url}{made['path']}"
    if not printed and webbrowser.open(address):
        click.echo(f"opened {service.url}/ in a browser")
        return
    click.echo(address)
    if sys.stdout.isatty():
        console.print(f"open this address within two minutes, or enter {made['code']} there")
