"""Asks why queries have matched or not without a service: of a state directory, or of documents.

In: a broker of this process. Out: what the API answers, as plain JSON.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xscl
from broker.cli.opening import open_broker
from broker.cli.places import XmlOptions
from broker.cli.shared import Failed

if TYPE_CHECKING:
    from broker.asking import Asking
    from broker.broker import Broker

_MOST = 10_000
"""Matches of a query after which trying it out ends, as in a service."""

_BEGINNING = -1e12
"""Before all documents, in seconds."""


class LocalAsking:
    """Asks a broker of this process; `at_most` documents are looked at."""

    def __init__(self, broker: Broker) -> None:
        from broker.asking import Asking

        self._asking: Asking = Asking(broker.engine)
        self._broker = broker
        self._known = broker.subscriptions
        self.store = broker.engine.store

    def of_subscription(self, id: str, at_most: int) -> list[dict[str, Any]]:
        from broker.service.api.replies_why import reply_of
        from broker.why.model import Budget

        try:
            told = self._asking.of_subscription(id, Budget(at_most))
        except KeyError:
            raise self._unknown(id) from None
        except ValueError as error:
            raise Failed(str(error)) from None
        return [reply_of(each).model_dump() for each in told]

    def of_text(self, text: str, name: str, at_most: int) -> list[dict[str, Any]]:
        from broker.service.api.replies_why import reply_of
        from broker.why.model import Budget

        queries = xscl.check([xscl.parse(text, name)]).queries
        try:
            told = self._asking.of_queries(queries, Budget(at_most))
        except ValueError as error:
            raise Failed(str(error)) from None
        return [reply_of(each).model_dump() for each in told]

    def between(self, query: str, is_text: bool, ids: Sequence[str]) -> list[dict[str, Any]]:
        from broker.errors import NotStored
        from broker.service.api.replies_why import GivenReply

        queries = xscl.check([xscl.parse(query)]).queries if is_text else [query]
        try:
            told = [self._asking.between(each, ids) for each in queries]
        except (ValueError, NotStored) as error:
            raise Failed(str(error)) from None
        except KeyError:
            raise self._unknown(query) from None
        return [GivenReply.model_validate(each).model_dump() for each in told]

    def try_out(self, text: str) -> dict[str, Any]:
        past = self._broker.dry_run(text, _BEGINNING, "query", _MOST)
        return {
            "documents": past.documents,
            "matches": [match.to_json() for match in past.matches],
            "suspended": [*past.suspended],
        }

    def _unknown(self, id: str) -> Failed:
        names = ", ".join(sorted(self._known)[:10])
        there = f"; there are: {names}" if names else ""
        return Failed(f"there is no subscription {id}, and no file of that name{there}")


@contextmanager
def of_state(state: Path) -> Iterator[LocalAsking]:
    """What is in a state directory on which nothing runs."""
    if not (state / "broker.duckdb").exists():
        raise Failed(
            f"{state}: there is no state; name one with --state, start a service with broker serve,"
            " or give --documents"
        )
    from broker.broker import Broker
    from broker.state.store import StateError

    try:
        broker = Broker(state)
    except StateError as error:
        raise Failed(str(error)) from None
    with broker:
        yield LocalAsking(broker)


@contextmanager
def of_documents(
    files: Sequence[xscl.ast.File], documents: Sequence[Path], xml: XmlOptions, lateness: int
) -> Iterator[LocalAsking]:
    """What documents hold for the queries of files, as `broker run` reads them."""
    from broker.cli.run import pipe

    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="broker-")))
        broker = stack.enter_context(open_broker(scratch, lateness, files))
        pipe(
            broker,
            scratch,
            broker.acknowledge,
            documents=documents,
            xml=xml,
            once=True,
            pipeline="local",
            keep=False,
            brief=True,
        )
        yield LocalAsking(broker)
