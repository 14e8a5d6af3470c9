"""Hubs that verify twice, late, or at another address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from feeds.hubs import Subscription
from feeds.websub import Subscriber
from tests.feeds.odd_server import OddServer
from tests.feeds.test_websub import World
from tests.waiting import until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, tmp_path)


def verified(world: World, subscriber: Subscriber) -> bool:
    asked = world.subscription()
    question = {"hub.mode": "subscribe", "hub.topic": asked.topic, "hub.challenge": "x"}
    return subscriber.verify(asked.token, question) == b"x"


def test_a_hub_may_repeat_a_verification(world: World) -> None:
    world.write("1")
    world.poller.fetch_wave()
    world.spool.save_hub(replace(world.subscription(), state="asked"))
    assert verified(world, world.subscriber)
    first = world.subscription().expires
    assert verified(world, world.subscriber)  # our first answer was lost on its way
    assert world.subscription().state == "active"
    assert world.subscription().expires >= first


def test_a_hub_whose_answer_was_lost_may_verify_late(world: World) -> None:
    with OddServer({"/hub": b""}) as hub:
        world.write("1", hub=hub.url("/hub"))
        world.poller.fetch_wave()
        world.subscriber.renew_due()
        assert len(hub.requests) == 1
    assert (world.subscription().state, world.subscription().errors) == ("wanted", 1)
    assert verified(world, world.subscriber)
    assert world.subscriber.live() == {world.url}
    assert world.subscriber.renew_due() == 0


def test_what_became_of_a_subscription_while_others_were_asked_stays(world: World) -> None:
    world.write("1")
    world.poller.fetch_wave()
    before = world.subscription()
    replaced = replace(before, hub="http://127.0.0.1:9/other", token="another")
    world.spool.save_hub(replaced)
    world.subscriber._subscribe(before)
    assert world.subscription() == replaced


def subscribed(world: World) -> Subscription:
    """A subscription that the hub has verified, of a subscriber that is gone."""
    world.write("1")
    with world.subscriber:
        world.poller.fetch_wave()
        world.hub.did("verified")
    return world.subscription()


def test_hubs_are_told_a_new_address_at_once(world: World) -> None:
    before = subscribed(world)
    with Subscriber(world.spool, world.fetcher) as moved:
        assert moved._callback != world.subscriber._callback
        until(lambda: world.subscription() != before)
        assert world.hub.did("verified") == world.url
        until(lambda: moved.live() == {world.url})
        world.write("2", "1")
        world.hub.publish(world.url)
        until(lambda: world.ids() == ["1", "2"])


def test_hubs_are_not_asked_again_at_the_same_address(world: World) -> None:
    before = subscribed(world)
    with Subscriber(world.spool, world.fetcher, callback=world.subscriber._callback) as again:
        assert again.renew_due() == 0
    assert world.subscription() == before
