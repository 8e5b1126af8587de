"""The official Python SDK of 5.x at our endpoint, and at our proxy in front of both brokers.

All stories of a place run in one process.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from roquet import PullConsumer, StartFrom
from tests.support.jars import ApacheVersion
from tests.support.sdk_programs import SdkProgram, python_command
from tests.support.sdk_stories import STORIES, SdkWorld

pytestmark = pytest.mark.xdist_group("python-sdk")

SLOW: Final = "retries take seconds; a raw client has unit tests of the same"
QUICK: Final = ("simple", "push", "fifo", "delay", "transactions")
# Apache redelivers up to ten seconds late, knows no retry policies of groups, and asks about
# transactions that have just ended if it is busy.
AT_APACHE: Final = ("simple", "sql", "fifo", "delay", "recall", "transactions")
APACHE: Final = "a JVM, and for each story the same as with our broker"


class Place(NamedTuple):
    world: SdkWorld
    sdk: SdkProgram


def world_of(place: str, directory: Path) -> SdkWorld:
    if place != "apache":
        return SdkWorld(directory, has_proxy=place == "proxy")
    settings = {"timerWheelEnable": "true", "recallMessageEnable": "true"}
    return SdkWorld(directory, settings, has_proxy=True, apache=ApacheVersion.V5_5_0)


@pytest.fixture(scope="module")
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("python-sdk")
    with (
        world_of(request.param, directory) as world,
        SdkProgram(python_command(), directory / "sdk", world.endpoint) as sdk,
    ):
        yield Place(world, sdk)


def cases() -> Iterator[Any]:
    for place in ("endpoint", "proxy"):
        for name in STORIES:
            marks = () if name in QUICK else pytest.mark.full(SLOW)
            yield pytest.param(place, name, marks=marks, id=f"{place}-{name}")
    at_apache = (pytest.mark.full(APACHE), pytest.mark.java)
    for name in AT_APACHE:
        yield pytest.param("apache", name, marks=at_apache, id=f"apache-{name}")


@pytest.mark.parametrize(("place", "story"), list(cases()), indirect=["place"], scope="module")
def test_the_python_sdk_can_do(place: Place, story: str) -> None:
    assert place.world.outcome(place.sdk, story) == STORIES[story].expected


@pytest.mark.parametrize("place", ["endpoint", "proxy"], indirect=True)
def test_a_consumer_of_remoting_gets_what_it_sends(place: Place) -> None:
    place.world.make_topic("crossing")
    (message_id,) = place.sdk.run("send", "crossing")
    name_server = place.world.names.address
    with PullConsumer(name_server, "remoting", start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe("crossing")
        while not (found := consumer.poll()):
            pass
    assert [(each.body, each.message_id, each.tags, each.keys) for each in found] == [
        (b"by gRPC", message_id, "new", ("k1",))
    ]
