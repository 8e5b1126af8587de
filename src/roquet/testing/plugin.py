"""Fixtures for pytest: a cluster for each test that asks for one, or one for all of them.

    def test_an_order_is_sent(roquet_cluster, roquet_topic):
        shop = Shop(name_server=roquet_cluster.name_server, topic=roquet_topic)
        shop.order("coffee")
        assert [message.body for message in roquet_cluster.received(roquet_topic)] == [b"coffee"]

    @pytest.mark.roquet_cluster(brokers=2, settings={"autoCreateTopicEnable": "false"})
    def test_two_brokers_share_the_work(roquet_cluster): ...

All are plain fixtures, with the servers in a thread of their own, so that they serve tests with
and without an event loop, whatever plugin runs it. A cluster starts in some 20 ms: each test has
its own, and nothing that one leaves behind, or a clock that it moved, is seen by another. Where
that is too long, `roquet_session_cluster` lives for the whole run, and `roquet_session_topic` is
a topic in it that no other test has seen.

pytest loads this file in every project that has Roquet installed. It must import nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from roquet.testing.blocking import BlockingCluster
    from roquet.testing.clock import MovableClock


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "roquet_cluster(brokers=1, replicas=0, failover=False, settings={}): how many brokers the"
        " fixture roquet_cluster has, how many slaves each of them, whether these step in for it"
        " (with an etcd, which has to be installed), and their settings under the keys of Apache's"
        " broker.conf",
    )


@pytest.fixture
def roquet_cluster(request: pytest.FixtureRequest) -> "Iterator[BlockingCluster]":
    """A name server and a broker; `roquet_cluster.name_server` is what clients are given.

    The mark `roquet_cluster(brokers=..., settings=...)` asks for others.
    """
    mark = request.node.get_closest_marker("roquet_cluster")
    yield from _running(*mark.args, **mark.kwargs) if mark is not None else _running()


@pytest.fixture
def roquet_topic(roquet_cluster: "BlockingCluster") -> str:
    """A new topic of four queues in `roquet_cluster`."""
    return roquet_cluster.new_topic()


@pytest.fixture
def roquet_clock(roquet_cluster: "BlockingCluster") -> "MovableClock":
    """The clock of `roquet_cluster`: `advance(timedelta)` makes delays and retries due."""
    return roquet_cluster.clock


@pytest.fixture(scope="session")
def roquet_session_options() -> dict[str, Any]:
    """`brokers` and `settings` of `roquet_session_cluster`; a conftest.py may have its own."""
    return {}


@pytest.fixture(scope="session")
def roquet_session_cluster(roquet_session_options: dict[str, Any]) -> "Iterator[BlockingCluster]":
    """One cluster for all tests of a run; each takes topics of its own."""
    yield from _running(**roquet_session_options)


@pytest.fixture
def roquet_session_topic(roquet_session_cluster: "BlockingCluster") -> str:
    """A new topic of four queues in `roquet_session_cluster`, with a name of its own."""
    return roquet_session_cluster.new_topic()


def _running(*nameless: Any, **options: Any) -> "Iterator[BlockingCluster]":
    from roquet.testing.blocking import BlockingCluster  # noqa: PLC0415

    with BlockingCluster(*nameless, **options) as cluster:
        yield cluster
