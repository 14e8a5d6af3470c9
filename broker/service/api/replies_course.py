"""The response bodies about the last hour and day, and about settings."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from broker.service.api.replies import Reply, Time


class PointReply(Reply):
    """What happened in the time since the point before."""

    at: Time = Field(description="its end")
    seconds: float = Field(description="how long it is", examples=[10.0])
    accepted: int = Field(description="documents that came in")
    documents: int = Field(description="documents that were matched")
    matches: int = Field(description="matches that were found")
    batches: int = Field(description="batches whose latency is known")
    waited: float = Field(
        description="the sum of their latencies in seconds, each from the acceptance of the oldest "
        "document until its matches are stored"
    )
    slowest: float = Field(description="the longest of these latencies")
    stages: dict[str, float] = Field(description="seconds of each stage of the pipeline")
    backlog: int = Field(description="documents that waited, the most that were seen")
    memory: int = Field(description="bytes that the process had, the most that were seen")
    files: int = Field(description="bytes of the files of the state, at the end")
    free: int = Field(description="bytes that were free on the disk, at the end")


class SettingReply(Reply):
    """A setting in effect."""

    name: str = Field(examples=["server.port"])
    value: Any = Field(description="as it is written; null: not set")
    changed: bool = Field(description="whether it is other than by default")
