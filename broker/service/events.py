"""Events of the service as documents of the stream `broker.events`.

A subscription reads them like any other:

    <broker-event kind="subscription.suspended"> <subject/> <reason/> <timestamp/> </broker-event>
"""

from __future__ import annotations

import uuid

from feeds.item import escape, iso8601, one_line
from feeds.rows import DocumentRow

STREAM = "broker.events"


def event_row(kind: str, subject: str, reason: str, at: int) -> DocumentRow:
    """The document of an event at a time in microseconds."""
    xml = (
        f'<broker-event kind="{kind}"><subject>{escape(one_line(subject))}</subject>'
        f"<reason>{escape(one_line(reason))}</reason>"
        f"<timestamp>{iso8601(at)}</timestamp></broker-event>"
    )
    id = str(uuid.uuid4())
    return DocumentRow(
        source=STREAM,
        id=id,
        streams=(STREAM,),
        timestamp=at,
        dated=True,
        seq=None,
        revision=False,
        xml=xml.encode(),
        place=f"{STREAM}/{id}",
    )
