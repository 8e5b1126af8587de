"""A program gets the queues of any topic."""

from collections.abc import Sequence

from roquet import AsyncPullConsumer
from roquet.client.errors import BadArgument
from roquet.client.queue_ref import QueueRef
from tests.support.eventually import eventually
from tests.support.inner_parts import member_of
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import GROUP, TOPIC, new_topic
from tests.support.raising import raises


def queues(count: int, topic: str = TOPIC) -> list[QueueRef]:
    return [QueueRef(topic, "broker-a", queue_id) for queue_id in range(count)]


async def test_a_program_is_notified_when_a_topic_has_other_queues(cluster: LiveCluster) -> None:
    await new_topic(cluster, 2)
    reported: list[Sequence[QueueRef]] = []
    async with AsyncPullConsumer(
        cluster.name_server, GROUP, topic_check_interval_s=0.01
    ) as pulling:
        assert await pulling.watch_queues(TOPIC, reported.append) == queues(2)
        await new_topic(cluster, 3)
        await eventually(lambda: len(reported) == 1)
    assert [*reported[0]] == queues(3)


async def test_a_topic_may_come_later_and_its_topic_is_as_the_program_knows_it(
    cluster: LiveCluster,
) -> None:
    reported: list[Sequence[QueueRef]] = []
    async with AsyncPullConsumer(
        cluster.name_server, GROUP, namespace="eu", topic_check_interval_s=0.01
    ) as pulling:
        assert await pulling.watch_queues(TOPIC, reported.append) == []
        await new_topic(cluster, 1, f"eu%{TOPIC}")
        await eventually(lambda: len(reported) == 1)
    assert [*reported[0]] == queues(1)


async def test_while_no_name_server_answers_nothing_is_reported(cluster: LiveCluster) -> None:
    await new_topic(cluster, 2)
    reported: list[Sequence[QueueRef]] = []
    async with AsyncPullConsumer(cluster.name_server, GROUP) as pulling:
        await pulling.watch_queues(TOPIC, reported.append)
        await cluster.stop_names()
        await member_of(pulling).topic_watch.refresh()
    assert not reported


async def test_what_is_no_function_is_refused(cluster: LiveCluster) -> None:
    async with AsyncPullConsumer(cluster.name_server, GROUP) as pulling:
        with raises(BadArgument, argument="on_queues"):
            await pulling.watch_queues(TOPIC, "listener")  # type: ignore[arg-type]
