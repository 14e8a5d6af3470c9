"""A run in this process, for the commands: its sources, and what its failures say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.places import Place, XmlOptions
from broker.cli.shared import Failed
from broker.local.pipeline import run_local
from broker.local.sources import JsonLines, Source, Spooled, XmlFolder
from broker.runs import PipelineError, Run
from broker.sources.documents import XmlFiles, existing
from feeds.spool import SpoolError, sources

if TYPE_CHECKING:
    from broker.broker import Broker


@contextmanager
def in_this_process(
    broker: Broker, directory: Path, read: Sequence[Place], xml: XmlOptions, spool: Path | None
) -> Iterator[Run]:
    """A function that runs the pipeline. Raises Failed."""
    try:
        found = [_source(place, xml) for place in read]
        if spool is not None:
            path = spool.absolute()
            engine = broker.engine
            found.append(Spooled(path, engine.position or engine.applied(sources(path))))
        yield partial(run_local, broker.engine, found, directory)
    except (FileNotFoundError, SpoolError) as error:
        raise Failed(str(error)) from None
    except PipelineError as error:
        raise Failed(str(error)) from error.__cause__


def _source(place: Place, xml: XmlOptions) -> Source:
    path = existing(place.path)
    if place.lines:
        return JsonLines(path)
    return XmlFolder(XmlFiles(str(path), place.name, (xml.stream,), xml.timestamp, xml.split))
