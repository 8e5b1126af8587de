"""What a broker is asked for by one pull after the other."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from roquet.client.cluster import pulling
from roquet.client.cluster.name_servers import NameServers
from roquet.client.cluster.pulling import Puller, PullOrder, PullTerms
from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import RouteBook
from roquet.client.group.subscriptions import subscription_of
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.protocol.codes import PullFlag
from tests.support.pulled_queue import BROKER_NAME, TOPIC, Replica, pulled_queue, records

QUEUE = QueueRef(TOPIC, BROKER_NAME, 0)
TERMS = PullTerms(subscription_of(TOPIC, "red"), 2, sends_subscription=True)


@pytest.fixture
def replica() -> Replica:
    return Replica(records(10))


@pytest.fixture
async def puller(replica: Replica) -> AsyncIterator[Puller]:
    async with pulled_queue(replica) as queue:
        peers = Peers(Router[None](None, ()), SystemClock())
        requests = Requests(peers, None)
        routes = RouteBook(NameServers(requests.call, (queue.name_server,)), asyncio.Event())
        await routes.newest(TOPIC)
        # From the first pull on there is a connection, which is what templates are for.
        await peers.connect(replica.address)
        yield Puller(requests, routes, "billing")
        await peers.close()


async def test_each_pull_says_its_own_offsets(puller: Puller, replica: Replica) -> None:
    orders = (
        # Whether it processes requests in their order is known when it has answered.
        PullOrder(QUEUE, TERMS, 0, commit_offset=0),
        PullOrder(QUEUE, TERMS, 2, commit_offset=1),
        PullOrder(QUEUE, TERMS, 4, commit_offset=3),
    )
    for order in orders:
        await puller.pull_records(order)
    asked = PullFlag.SUSPEND | PullFlag.SUBSCRIPTION
    commits = asked | PullFlag.COMMIT_OFFSET
    assert [(each.queue_offset, each.commit_offset, each.sys_flag) for each in replica.pulls] == [
        (0, 0, asked),
        (2, 1, commits),
        (4, 3, commits),
    ]


async def test_a_broker_that_may_store_an_older_offset_last_gets_none_with_a_pull(
    puller: Puller, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "OUR_LANGUAGE", "not that of the replica")
    for offset in (2, 4):
        await puller.pull_records(PullOrder(QUEUE, TERMS, offset, commit_offset=offset - 1))
    assert not any(each.sys_flag & PullFlag.COMMIT_OFFSET for each in replica.pulls)


async def test_other_terms_are_sent_at_once(puller: Puller, replica: Replica) -> None:
    for terms in (
        TERMS,
        TERMS._replace(subscription=subscription_of(TOPIC, "green")),
        TERMS._replace(count_max=5),
        TERMS._replace(suspend_s=0, size_max=1000),
        TERMS,
    ):
        await puller.pull_records(PullOrder(QUEUE, terms, 0))
    assert [
        (each.subscription, each.max_msg_nums, each.suspend_timeout_millis, each.max_msg_bytes)
        for each in replica.pulls
    ] == [
        ("red", 2, 15_000, None),
        ("green", 2, 15_000, None),
        ("red", 5, 15_000, None),
        ("red", 2, 0, 1000),
        ("red", 2, 15_000, None),
    ]
