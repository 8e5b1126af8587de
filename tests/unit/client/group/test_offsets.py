"""Offsets: noted at once, kept by whichever store there is."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from roquet import AsyncProducer, AsyncPullConsumer, Unreachable
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.name_servers import NameServers
from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import BadArgument
from roquet.client.group.offsets import BrokerOffsets, FileOffsets, OffsetKeeper
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.net.peers import Peers
from roquet.net.router import Reply, Router
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import GROUP, TOPIC, Inbox, consumer, new_topic, numbers, send
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster

A0, A1, B0 = QueueRef("t", "a", 0), QueueRef("t", "a", 1), QueueRef("t", "b", 0)


class Memory:
    """A store of a program, whose broker `broken` cannot be written for."""

    def __init__(self, broken: str | None = None) -> None:
        self.offsets: dict[QueueRef, int] = {}
        self.broken = broken

    async def kept(self, queue: QueueRef) -> int | None:
        if queue.broker_name == self.broken:
            raise OSError("the database is away")
        return self.offsets.get(queue)

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        if any(queue.broker_name == self.broken for queue in offsets):
            raise OSError("the database is away")
        self.offsets.update(offsets)


async def test_a_note_only_goes_forwards_and_a_move_anywhere() -> None:
    keeper = OffsetKeeper(Memory())
    keeper.note(A0, 5)
    keeper.note(A0, 3)
    assert keeper.noted(A0) == 5
    keeper.move(A0, 3)
    assert keeper.noted(A0) == 3


async def test_what_is_saved_is_in_the_store_and_the_rest_is_not() -> None:
    store = Memory()
    keeper = OffsetKeeper(store)
    keeper.note(A0, 5)
    keeper.note(A1, 6)
    await keeper.save([A0, B0])
    assert store.offsets == {A0: 5}
    keeper.forget(A1)
    await keeper.save([A1])
    assert store.offsets == {A0: 5}
    assert await keeper.kept(A0) == 5


async def test_a_store_that_fails_for_one_broker_is_tried_again_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Memory(broken="b")
    keeper = OffsetKeeper(store)
    keeper.note(A0, 5)
    keeper.note(B0, 7)
    with caplog.at_level(logging.WARNING):
        await keeper.save([A0, B0])
    assert store.offsets == {A0: 5}
    assert "the database is away" in caplog.text
    with raises(Unreachable, reason="the database is away"):
        await keeper.commit({B0: 8})
    with raises(Unreachable, reason="the database is away"):
        await keeper.kept(B0)
    store.broken = None
    await keeper.save([A0, B0])
    assert store.offsets == {A0: 5, B0: 8}


class SlowMemory(Memory):
    """Stores what it gets when it is allowed to, whatever comes first."""

    def __init__(self) -> None:
        super().__init__()
        self.may_store: list[asyncio.Event] = []

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        may_store = asyncio.Event()
        self.may_store.append(may_store)
        await may_store.wait()
        await super().keep(offsets)


async def test_an_older_commit_on_its_way_does_not_undo_the_last_one() -> None:
    store = SlowMemory()
    keeper = OffsetKeeper(store)
    keeper.note(A0, 5)
    periodic = asyncio.create_task(keeper.save([A0]))
    await eventually(lambda: store.may_store)
    keeper.note(A0, 8)
    closing = asyncio.create_task(keeper.save_finally([A0]))
    await asyncio.sleep(0)
    # The second is allowed first, if it is there.
    for may_store in reversed(store.may_store):
        may_store.set()
    await periodic
    await eventually(lambda: len(store.may_store) == 2)
    store.may_store[1].set()
    await closing
    assert store.offsets == {A0: 8}


async def test_a_member_that_leaves_tries_a_second_time() -> None:
    store = Memory(broken="b")
    keeper = OffsetKeeper(store)
    keeper.note(B0, 7)
    keep = store.keep

    async def fail_once(offsets: Mapping[QueueRef, int]) -> None:
        try:
            await keep(offsets)
        finally:
            store.broken = None

    store.keep = fail_once  # type: ignore[method-assign]
    await keeper.save_finally([B0])
    assert store.offsets == {B0: 7}


async def test_the_first_commit_of_a_topic_goes_ahead_of_the_others(
    scripted: ScriptedCluster,
) -> None:
    peers = Peers(Router[None](None, ()), SystemClock())
    requests = Requests(peers, None)
    routes = RouteBook(NameServers(requests.call, (scripted.name_server,)), asyncio.Event())
    await routes.newest("t")
    store = BrokerOffsets(Brokers(requests, routes), "billing")
    broker = scripted.brokers[0]

    async def answered(count: int) -> list[int]:
        """The queues of the commits that are on their way at the same time."""
        await eventually(lambda: len(broker.commits) == count)
        commits, broker.commits = broker.commits, []
        for deferred, _ in commits:
            deferred.answer(Reply())
        return sorted(header.queue_id for _, header in commits)

    for counts in ((1, 1), (2,)):
        keeping = asyncio.create_task(store.keep({A0: 5, A1: 6}))
        parts = [await answered(count) for count in counts]
        assert sorted(queue_id for part in parts for queue_id in part) == [0, 1]
        await keeping
    await peers.close()


async def test_a_file_keeps_offsets_for_the_next_run(tmp_path: Path) -> None:
    store = FileOffsets(tmp_path)
    store.load()
    keeper = OffsetKeeper(store)
    await keeper.commit({A0: 5, B0: 7})
    keeper.note(A1, 6)
    await keeper.save([A1])
    keeper.forget(A1)
    assert await keeper.kept(A1) == 6
    again = FileOffsets(tmp_path)
    again.load()
    assert [await again.kept(queue) for queue in (A0, A1, B0)] == [5, 6, 7]


@pytest.mark.parametrize("broadcasting", [False, True])
async def test_a_group_continues_where_the_store_of_the_program_says(
    cluster: LiveCluster, producer: AsyncProducer, broadcasting: bool
) -> None:
    await new_topic(cluster, 1)
    await send(producer, *numbers(5))
    store = Memory()
    queue = QueueRef(TOPIC, "broker-a", 0)
    store.offsets[queue] = 3
    inbox = Inbox()
    async with consumer(cluster, inbox, offset_store=store, broadcasting=broadcasting):
        await inbox.has(2)
    assert inbox.bodies == numbers(2, 3)
    assert store.offsets[queue] == 5


async def test_a_pull_consumer_commits_to_the_store_of_the_program(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    store = Memory()
    queue = QueueRef(TOPIC, "broker-a", 0)
    async with AsyncPullConsumer(cluster.name_server, GROUP, offset_store=store) as pulling:
        await pulling.commit({queue: 4})
        assert await pulling.committed(queue) == 4
    assert store.offsets == {queue: 4}
    assert cluster.brokers["broker-a"].tables.offsets.find(GROUP, TOPIC, 0) is None


def test_what_is_no_store_is_refused() -> None:
    with raises(BadArgument, argument="offset_store"):
        AsyncPullConsumer("127.0.0.1:9876", GROUP, offset_store="here")  # type: ignore[arg-type]
