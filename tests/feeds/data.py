"""The places of the third-party feeds, and a short form of feed rows."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
SAMPLES = ROOT / "feeds" / "samples"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not there")


def rss(*items: str, channel: str = "<title>News</title>") -> bytes:
    """An RSS 2.0 document with these items' contents."""
    inner = "".join(f"<item>{item}</item>" for item in items)
    return (
        '<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
        ' xmlns:content="http://purl.org/rss/1.0/modules/content/">'
        f"<channel>{channel}{inner}</channel></rss>"
    ).encode()


def atom(*entries: str, feed: str = "<title>News</title>") -> bytes:
    """An Atom 1.0 document with these entries' contents."""
    inner = "".join(f"<entry>{entry}</entry>" for entry in entries)
    return f'<feed xmlns="http://www.w3.org/2005/Atom">{feed}{inner}</feed>'.encode()
