"""Fixtures for pytest: a cluster for each test that asks for one.

    def test_an_order_is_sent(roquet_cluster, roquet_topic):
        shop = Shop(name_server=roquet_cluster.name_server, topic=roquet_topic)

All are plain fixtures, with the servers in a thread of their own, so that they serve tests with
and without an event loop, whatever plugin runs it. A cluster starts in some 20 ms: each test has
its own, and nothing that one leaves behind, or a clock that it moved, is seen by another.

pytest loads this file in every project that has Roquet installed. It must import nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from roquet.testing.blocking import BlockingCluster
    from roquet.testing.clock import MovableClock


@pytest.fixture
def roquet_cluster() -> "Iterator[BlockingCluster]":
    """A name server and a broker; `roquet_cluster.name_server` is what clients are given."""
    from roquet.testing.blocking import BlockingCluster  # noqa: PLC0415

    with BlockingCluster() as cluster:
        yield cluster


@pytest.fixture
def roquet_topic(roquet_cluster: "BlockingCluster") -> str:
    """A new topic of four queues in `roquet_cluster`."""
    return roquet_cluster.new_topic()


@pytest.fixture
def roquet_clock(roquet_cluster: "BlockingCluster") -> "MovableClock":
    """The clock of `roquet_cluster`: `advance(timedelta)` makes delays and retries due."""
    return roquet_cluster.clock
