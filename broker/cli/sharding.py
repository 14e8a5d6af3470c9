"""The options of a run whose stage 2 is divided among the machines of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from broker.cli.shared import DURATION, Failed, console

if TYPE_CHECKING:
    from broker.cluster.remote import RemoteShards
    from broker.cluster.sharded import ShardedEngine
    from broker.engine import Engine
    from broker.spark.session import Session
    from broker.state.store import Store

_FILE, _PACKED = f"{__name__}.file", f"{__name__}.packed"

F = TypeVar("F", bound=Callable[..., Any])


def conf_option(command: F) -> F:
    """The options --conf, --conf-file and --packed; their one parameter is `conf`, a dictionary."""
    for option in (
        click.option(
            "--conf",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_settings,
            help="A setting of Spark. May be given several times.",
        ),
        click.option(
            "--conf-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=_from_file,
            help="Settings of Spark, a name and a value a line, as in its spark-defaults.conf.",
        ),
        click.option(
            "--packed",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=_from_archive,
            help="What broker cluster pack has written: executors run it, and need nothing of the "
            "broker installed.",
        ),
    ):
        command = option(command)
    return command


def shards_options(command: F) -> F:
    """The options --shards, --shared, --patience and --metrics."""
    for option in (
        click.option(
            "--metrics",
            metavar="HOST:PORT",
            callback=_address,
            help="With --shards: where to listen for Prometheus, which asks for /metrics.",
        ),
        click.option(
            "--patience",
            type=DURATION,
            default="10 minutes",
            show_default=True,
            metavar="DURATION",
            help="With --shards: how long a shard may take to answer, or to be made anew. If one "
            "takes longer the run ends, and nothing is lost.",
        ),
        click.option(
            "--shared",
            metavar="DIR|URL",
            help="With --shards: a directory that all machines of the cluster see under this name, "
            "or s3://BUCKET/PREFIX.",
        ),
        click.option(
            "--shards",
            type=click.IntRange(1, 4096),
            help="Divide stage 2 as well, into so many tasks that each take a core of the cluster.",
        ),
    ):
        command = option(command)
    return command


def _address(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise click.BadParameter(f"{value} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _settings(
    context: click.Context, _parameter: click.Parameter, values: Sequence[str]
) -> dict[str, str]:
    """Those of --conf, which go before those of the other two options."""
    for each in values:
        if "=" not in each:
            raise click.BadParameter(f"{each} is not NAME=VALUE")
    given = dict(each.split("=", 1) for each in values)
    return {**context.meta.get(_FILE, {}), **context.meta.get(_PACKED, {}), **given}


def _from_file(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    lines = file.read_text(encoding="utf-8").splitlines() if file is not None else []
    found = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        name, *value = re.split(r"\s*=\s*|\s+", line, maxsplit=1)
        if not value:
            raise click.BadParameter(f"line {number} of {file} has no value: {line}")
        found[name] = value[0]
    context.meta[_FILE] = found


def _from_archive(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    if file is not None:
        from broker.spark.packing import NAME, PYTHON

        archive = f"{file.absolute().as_uri()}#{NAME}"
        context.meta[_PACKED] = {"spark.archives": archive, "spark.pyspark.python": PYTHON}


@dataclass(slots=True)
class Sharding:
    """How a run is divided: into `count` shards over `shared` files, not at all with 0."""

    count: int = 0
    shared: str = ""
    form: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    patience: float = 600.0
    """Seconds."""
    metrics: tuple[str, int] | None = None
    """Where to listen for Prometheus."""
    _shards: RemoteShards | None = None
    _serving: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def of(
        cls,
        shards: int | None,
        shared: str | None,
        conf: dict[str, str],
        patience: int,
        metrics: tuple[str, int] | None,
        *,
        form: str,
        pipeline: str,
    ) -> Sharding:
        """From the options. Raises UsageError."""
        if (shards is None) != (shared is None):
            raise click.UsageError("--shards and --shared belong together")
        if metrics is not None and shards is None:
            raise click.UsageError("--metrics is for --shards")
        if pipeline == "local" and (shards or conf):
            raise click.UsageError("--shards and --conf are for Spark, so no --pipeline local")
        # What is meant for a terminal, or has a header, is written by the coordinator.
        own = form if form in ("jsonl", "xml") else None
        return cls(shards or 0, shared or "", own, conf, patience / 1_000_000, metrics)

    def engine(self, store: Store, **settings: Any) -> Engine:
        """The engine over a store, with what `Engine` takes. Raises Failed."""
        from broker.cluster.files import ClusterError
        from broker.cluster.remote import RemoteShards
        from broker.cluster.sharded import ShardedEngine

        self._shards = RemoteShards(patience=self.patience, tell=console.print)
        try:
            return ShardedEngine(
                store,
                shared=self.shared,
                shards=self._shards,
                count=self.count,
                form=self.form,
                **settings,
            )
        except (ClusterError, OSError) as error:
            raise Failed(str(error)) from None

    def begin(self, session: Session, engine: Engine) -> None:
        """Start the shards as tasks of a session. Raises Failed."""
        if self._shards is None:
            return
        from broker.cluster.files import ClusterError
        from broker.spark.shards import SparkTasks

        host = session.sparkContext.getConf().get("spark.driver.host")
        try:
            self._shards.use(SparkTasks(session), host or "127.0.0.1")
            cluster = _sharded(engine).cluster
            cluster.start()
            if self.metrics is not None:
                from broker.cli.shard_metrics import serving

                shards = self._shards
                told = serving(self.metrics, cluster.load, lambda: shards.rebuilt)
                self._serving.enter_context(told)
        except ClusterError as error:
            raise Failed(str(error)) from None

    def end(self, engine: Engine) -> None:
        """End the shards, before their session, and say what they did."""
        if self._shards is None:
            return
        from broker.cli.shard_metrics import summary

        self._serving.close()
        cluster = _sharded(engine).cluster
        if cluster.load.batches:
            console.print(summary(cluster.load, self._shards.rebuilt))
        cluster.close()


def _sharded(engine: Engine) -> ShardedEngine:
    from broker.cluster.sharded import ShardedEngine

    assert isinstance(engine, ShardedEngine)
    return engine
