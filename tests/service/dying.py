"""A service that dies whenever one of its queries, slow7, is searched for at the fourth document; it
ends when all documents are matched."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from broker.service.service import Service
from broker.state.statements import Statements
from tests.service.data import settings
from tests.waiting import until


def main() -> None:
    """Serve the state that is the command's argument. It dies at the statement that searches, as
    methods of what is compiled cannot be replaced."""
    service = Service(settings(Path(sys.argv[1])))
    rows = Statements.rows

    def dying(self: Statements, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        if isinstance(parameters, dict) and "$first" in sql:
            number = service.engine.catalog.subscriptions["slow7"].canonical.number
            wanted = parameters.get("queries", [number])  # without any, all are searched for
            if parameters["first"] <= 4 <= parameters["last"] and number in wanted:
                os.kill(os.getpid(), signal.SIGKILL)
        return rows(self, sql, parameters)

    with patch.object(Statements, "rows", dying):
        service.start()
        until(lambda: not service.core.backlog())
        service.stop()
