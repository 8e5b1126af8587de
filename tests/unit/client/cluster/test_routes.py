"""From a name server's answer to queues, and how the book of routes keeps them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from roquet.client.cluster.name_servers import NameServers
from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import NewTopic, Route, RouteBook, route_of
from roquet.client.errors import NoNameServer, TopicNotFound
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.protocol.bodies.name_server import BrokerData, QueueData, TopicRoute
from tests.support.eventually import eventually
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster, scripted_cluster

NOBODY = "127.0.0.1:1"


def answer(*queues: QueueData, masters: str = "ab", order: str | None = None) -> TopicRoute:
    brokers = [BrokerData(broker_name=name, broker_addrs={0: f"{name}:1"}) for name in masters]
    slave = BrokerData(broker_name="slave", broker_addrs={1: "slave:1"})
    return TopicRoute(
        broker_datas=[*brokers, slave], queue_datas=list(queues), order_topic_conf=order
    )


def data(name: str, write_count: int, permission: int = 6) -> QueueData:
    return QueueData(
        broker_name=name, read_queue_nums=8, write_queue_nums=write_count, perm=permission
    )


def places(route: TopicRoute, count_max: int = 100) -> list[tuple[str, int]]:
    return [(queue.broker_name, queue.queue_id) for queue in route_of("t", route, count_max).queues]


def test_queues_are_those_that_can_be_written_in_the_order_of_their_brokers() -> None:
    route = answer(data("b", 1), data("a", 2), data("slave", 4), data("c", 4))
    assert places(route) == [("a", 0), ("a", 1), ("b", 0)]
    assert places(answer(data("a", 2, permission=4), data("b", 1, permission=2))) == [("b", 0)]


def test_an_operator_may_give_another_order() -> None:
    route = answer(data("a", 4), data("b", 4), order="b:2;a:1;nonsense;c:x")
    assert places(route) == [("b", 0), ("b", 1), ("a", 0)]


def test_a_new_topic_gets_as_many_queues_as_wanted_or_as_the_template_has() -> None:
    assert len(places(answer(data("a", 8)), 4)) == 4
    assert len(places(answer(data("a", 2)), 4)) == 2


@pytest.fixture
async def requests() -> AsyncIterator[Requests]:
    peers = Peers(Router(None, ()), SystemClock())
    yield Requests(peers, None)
    await peers.close()


def book(requests: Requests, *addresses: str) -> RouteBook:
    return RouteBook(NameServers(requests.call, addresses), asyncio.Event())


async def test_a_route_is_asked_for_once(requests: Requests, scripted: ScriptedCluster) -> None:
    routes = book(requests, scripted.name_server)
    first, second = await asyncio.gather(routes.find("t"), routes.find("t"))
    assert first is second is await routes.find("t")
    assert scripted.names.asked == ["t"]
    assert routes.masters() == {broker.address for broker in scripted.brokers}


async def test_an_unknown_topic_takes_after_the_template(
    requests: Requests, scripted: ScriptedCluster
) -> None:
    scripted.names.unknown = {"t"}
    new_topic = NewTopic(queue_count=1)
    route = await book(requests, scripted.name_server).find("t", new_topic=new_topic)
    assert route.queues == (QueueRef("t", "a", 0), QueueRef("t", "b", 0))
    assert scripted.names.asked == ["t", "TBW102"]


async def test_a_topic_without_writable_queues_is_not_found(
    requests: Requests, scripted: ScriptedCluster
) -> None:
    scripted.names.route = answer(data("a", 4, permission=4))
    with raises(TopicNotFound, topic="t", is_missing=False):
        await book(requests, scripted.name_server).find("t")


@pytest.mark.slow
async def test_a_stale_route_is_renewed_soon_and_kept_when_there_is_no_better(
    requests: Requests, scripted: ScriptedCluster
) -> None:
    routes = book(requests, scripted.name_server)
    before = await routes.find("t")
    keeping = asyncio.create_task(routes.keep_renewed(3600))
    scripted.names.unknown = {"t"}
    routes.renew_soon("t")
    await eventually(lambda: scripted.names.asked == ["t", "t"])
    assert await routes.find("t") is before
    scripted.names.unknown = set()
    scripted.names.route = answer(data("a", 7))
    routes.renew_soon("t")
    await eventually(lambda: "a:1" in routes.masters())
    assert len((await routes.find("t")).queues) == 7
    keeping.cancel()


async def test_the_next_name_server_is_asked_when_one_fails_and_then_kept(
    requests: Requests, scripted: ScriptedCluster
) -> None:
    servers = NameServers(requests.call, (NOBODY, scripted.name_server))
    routes = RouteBook(servers, asyncio.Event())
    for topic in "tuv":
        await routes.find(topic)
    assert servers._addresses == [scripted.name_server, NOBODY]


async def test_when_no_name_server_answers_all_reasons_are_reported(requests: Requests) -> None:
    with pytest.raises(NoNameServer, match=NOBODY) as failure:
        await book(requests, NOBODY, "127.0.0.1:2").find("t")
    assert len(failure.value.reasons) == 2


async def test_one_look_up_serves_all_that_wait_and_survives_those_that_give_up(
    requests: Requests,
) -> None:
    async with scripted_cluster("a") as cluster:
        routes = book(requests, cluster.name_server)
        finds = [asyncio.create_task(routes.find("t")) for _ in range(5)]
        await asyncio.sleep(0)
        finds[0].cancel()
        found = await asyncio.gather(*finds, return_exceptions=True)
        assert [len(each.queues) for each in found if isinstance(each, Route)] == [2] * 4
        assert cluster.names.asked == ["t"]


async def test_one_that_fails_fails_for_all_that_wait_and_the_next_is_a_new_one(
    requests: Requests,
) -> None:
    async with scripted_cluster("a") as cluster:
        cluster.names.unknown = {"t", "TBW102"}
        routes = book(requests, cluster.name_server)
        found = await asyncio.gather(*(routes.find("t") for _ in range(5)), return_exceptions=True)
        assert {type(each) for each in found} == {TopicNotFound}
        assert cluster.names.asked == ["t", "TBW102"]
        cluster.names.unknown = set()
        assert len((await routes.find("t")).queues) == 2
