"""The settings of the service: what there is to set, in which form, and what it is by default.

In: a TOML file, the environment, the options of a command. Out: `Settings`, checked and frozen.
Durations are integers of microseconds and sizes integers of bytes, whatever they were written as.
The descriptions here are the reference that docs/service.md shows.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from broker.model import Budgets
from broker.planner import DEFAULT, SECONDS, Method
from broker.settings.kinds import AnyDuration, Count, Duration, Keep, Port, Secret, Size
from broker.settings.sources import Layers, SettingsError, read_layers
from broker.text.units import FOREVER
from xscl.syntax.durations import UNITS

__all__ = ["Settings", "SettingsError"]

_SECOND = UNITS["s"]
_MINUTE = UNITS["min"]
_BUDGETS = Budgets()
_HOUR = UNITS["h"]
_DAY = UNITS["d"]


class Section(BaseModel):
    """A table of the file. Where there is a NAME_file beside a secret NAME, that file may hold
    it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def _about(field: str, message: str) -> PydanticCustomError:
    """A problem of one field that is found by looking at the whole section."""
    return PydanticCustomError("section", "{message}", {"message": message, "field": field})


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


SHORTEST_TOKEN = 16
"""Characters of a token where other machines may try to guess it."""

_NEW_TOKEN = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))' > token"
_TOKEN = (
    "server.token_file in the file of settings, BROKER_SERVER__TOKEN_FILE, or serve --token-file"
    f" (commands send what is in BROKER_TOKEN or --token-file); {_NEW_TOKEN}"
)


class Server(Section):
    """Where the service listens, and who may ask it."""

    host: str = "127.0.0.1"
    """address to listen on; one that other machines can reach needs `token`"""
    port: Port = 8321
    """port to listen on; 0: any that is free"""
    token: Secret | None = None
    """what clients must send; unless it is set, one is made at the first start and kept in the
    state directory"""
    token_file: Path | None = None
    """file that holds the token"""
    metrics_token: Secret | None = None
    """what a reader of `/metrics` must send; nothing unless it is set"""
    metrics_token_file: Path | None = None
    """file that holds that token"""
    public_url: str | None = Field(default=None, pattern="^https?://[^/]")
    """address under which others reach the service, behind a proxy say; links in Atom feeds begin
    with it"""
    max_body: Size = 10_000_000
    """largest body of a request"""
    head_timeout: Duration = 15 * _SECOND
    """time in which the head of a request must come, also of the first one on a connection"""
    body_timeout: Duration = 30 * _SECOND
    """time in which each 64 KiB of a body must come, or the rest of it"""
    connections: Count = 4_000
    """connections at once; fewer where the process may not open so many files"""
    client_connections: Count = 2_000
    """connections at once from one address"""

    @model_validator(mode="after")
    def _guarded(self) -> Server:
        if is_loopback(self.host):
            return self
        if self.token is None:
            text = f"other machines can reach {self.host}, so set a token of your own: {_TOKEN}"
            raise _about("host", text)
        if len(self.token.get_secret_value()) < SHORTEST_TOKEN:
            text = (
                f"other machines can reach {self.host}, so a token needs {SHORTEST_TOKEN} "
                f"characters or more; {_NEW_TOKEN}"
            )
            raise _about("token" if self.token_file is None else "token_file", text)
        return self


class Pipeline(Section):
    """How documents are matched."""

    kind: Literal["local", "spark"] = "local"
    """`local`: all in this process; `spark`: tree patterns are matched on Spark's executors, on
    this machine or a cluster"""
    master: str | None = None
    """Spark master; by default Spark runs on this machine"""
    batch: Count = 1_000
    """most documents in a batch"""
    processes: Count = 2
    """processes that match: with 2, and two cores, a second one parses the next documents and
    matches their tree patterns while many wait; it takes memory for them once more"""
    revisions: Literal["replace", "flow"] = "replace"
    """`replace`: an edited document takes the place of what is stored and fires nothing; `flow`: it
    is a document of its own, which never matches other versions of itself"""
    planner: Method = DEFAULT
    """how the orders are found in which event patterns are searched; it changes no match"""
    planning: AnyDuration = round(SECONDS * _SECOND)
    """how long a plan may take, which is then the best so far; `INFINITY`: to its end"""
    memory: Count = 1_000_000
    """documents whose values are held in memory; older ones are read from the state"""

    @property
    def planning_seconds(self) -> float | None:
        """How long a plan may take, in seconds; None: to its end."""
        return None if self.planning >= FOREVER else self.planning / _SECOND


class Time(Section):
    """What is late, and when time goes on by itself."""

    lateness: AnyDuration = 7 * _DAY
    """how much older than the newest document one may arrive; older ones are kept aside"""
    streams: dict[str, AnyDuration] = {}
    """lateness of single streams, as `{ S = "1 day" }`"""
    idle: Duration = _MINUTE
    """where nothing came for so long, time follows the clock, so that windows close"""


class Feeds(Section):
    """Which feeds are fetched, besides those added with `broker feeds add`."""

    urls: tuple[str, ...] = ()
    """addresses of feeds; all that they show at first is news, unlike with `broker feeds add`"""
    opml: tuple[Path, ...] = ()
    """OPML files that list feeds"""
    interval: Duration | None = None
    """time between two fetches of a feed; by default 15 minutes, and more for feeds that bring
    little or ask for more"""
    allow_private: bool = False
    """whether feeds may be on this machine and in its network: those of `urls` and `opml`, and
    those that a client adds with `allow_private`"""
    websub: str | None = Field(default=None, pattern="^https?://[^/]")
    """address under which WebSub hubs reach `websub_listen`; no hub is asked unless it is set"""
    websub_listen: str = Field(default="127.0.0.1:8087", pattern=r"^\S+:\d{1,5}$")
    """where to listen for hubs"""


class Intake(Section):
    """When documents are not accepted."""

    max_backlog: Count = 100_000
    """most documents that wait to be matched; beyond, publishers are told to wait (429)"""
    min_free: Size = 500_000_000
    """free disk space below which nothing more is accepted (507)"""


class Limits(Section):
    """What one subscription may find before it is suspended, and what it may cost."""

    matches: Count | None = None
    """most matches of one subscription in a `period`; no limit unless it is set"""
    period: Duration = _HOUR
    """the period of `matches`"""
    combinations: Count = _BUDGETS.combinations
    """most combinations of documents and nodes of one query that one document completes"""
    text: Size = _BUDGETS.text
    """most characters in the results of one query that one document completes"""
    derived: Count = _BUDGETS.derived
    """most documents that results become, and results of those, by one document"""
    time: Duration = 10 * _SECOND
    """processor time that the search of one query at one document may take"""
    memory: Size | None = None
    """memory that the process may take before a search that adds to it is stopped; by default 60 %
    of what there is. The database has a third of it; the other process for stage 1 may take half as
    much besides, and ends beyond that"""
    dear_queries: Literal["warn", "refuse"] = "warn"
    """what is done about a new query that is expected to cost very much: more `candidates`, blocks
    that no value join connects, all combinations of a group"""
    candidates: Count = 1_000_000
    """candidates a day from which on a query costs very much, by the documents that are stored"""


class Retention(Section):
    """What is forgotten, and when."""

    documents: Keep = None
    """age at which documents go even where a window still reaches them; no match has any of them
    from then on"""
    identities: Keep = 30 * _DAY
    """how long it is remembered that an expired document was there, so that it is known when it is
    sent again"""
    delivered: Keep = 7 * _DAY
    """how long matches are kept that all channels have delivered"""
    undelivered: Keep = None
    """how long matches are kept that a channel still has to deliver"""
    dead_letters: Keep = 90 * _DAY
    """how long documents kept aside and deliveries given up are kept"""
    changes: Keep = 365 * _DAY
    """how long it is kept who has changed what"""
    max_mailbox: Size | None = None
    """size of the mailbox beyond which its oldest delivered matches go early; no limit unless it is
    set"""


class Smtp(Section):
    """The server that takes mail."""

    host: str | None = None
    """mail server; without one there are no mail channels"""
    port: Port = 587
    """its port"""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`, `tls` from the first byte, or `none`"""
    user: str | None = None
    """login name"""
    password: Secret | None = None
    """password; needs `user`"""
    password_file: Path | None = None
    """file that holds the password"""
    ca: Path | None = None
    """certificates of the authorities that are trusted, instead of the system's"""
    sender: str | None = Field(default=None, pattern="^[^@ ]+@[^@ ]+$")
    """address that mail comes from; needed with `host`"""

    @model_validator(mode="after")
    def _complete(self) -> Smtp:
        if self.host is not None and self.sender is None:
            raise _about("sender", "a mail server is set, so the sender's address is needed")
        if (self.user is None) != (self.password is None):
            raise _about("user", "user and password go together")
        return self


class Delivery(Section):
    """How matches are brought to receivers."""

    allow_private: bool = False
    """whether webhooks may go to private addresses"""
    timeout: Duration = 20 * _SECOND
    """how long a receiver may take to answer"""
    schedule: tuple[Duration, ...] = Field(
        default=(
            *(5 * _SECOND, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 5 * _HOUR),
            *(10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR),
        ),
        min_length=1,
    )
    """waits between attempts; after the last one a delivery is given up, as a dead letter"""
    smtp: Smtp = Smtp()


class Logs(Section):
    """What is logged, to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`"""
    format: Literal["auto", "text", "json"] = "auto"
    """`text`, `json` (a line each), or `auto`: text on a terminal, else JSON"""


class Settings(BaseSettings):
    """All settings. Options count more than the environment (`BROKER_SERVER__PORT`), that more than
    the file, and the file more than the defaults."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        env_prefix="BROKER_",
        env_nested_delimiter="__",
    )

    state: Path = Path("broker-state")
    """directory in which everything survives"""
    server: Server = Server()
    pipeline: Pipeline = Pipeline()
    time: Time = Time()
    feeds: Feeds = Feeds()
    intake: Intake = Intake()
    limits: Limits = Limits()
    retention: Retention = Retention()
    delivery: Delivery = Delivery()
    logs: Logs = Logs()

    @classmethod
    def load(
        cls, config: Path | None = None, overrides: Mapping[str, object] | None = None
    ) -> Settings:
        """The settings in effect.

        `overrides` are options by dotted name (`{"server.port": 8400}`), durations and sizes as
        text; those that are None count for nothing. Raises SettingsError, with all problems.
        """
        return cls.read(config, overrides)[0]

    @classmethod
    def read(
        cls, config: Path | None = None, overrides: Mapping[str, object] | None = None
    ) -> tuple[Settings, Layers]:
        """As `load`, with where each setting came from and what there is to be said about it."""
        layers = read_layers(cls, config, overrides or {})
        return layers.validated(cls), layers

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is read from where is `read_layers`' business, which remembers it."""
        return (init_settings,)
