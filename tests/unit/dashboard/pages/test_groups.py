"""Groups as rows of a list; moving, pausing, and dead letters: with a real cluster."""

import re
from datetime import UTC, datetime

import pytest

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.groups import GroupSettings
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.producer import AsyncProducer
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.outcome import DeadLetter
from roquet.client.received import ReceivedMessage
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages.groups import is_paused, target_of
from roquet.protocol.messages.message import Message
from roquet.testing.cluster import Cluster
from tests.support.dashboards import dashboard

PLAN = re.compile(r'name="plan" value="([^"]+)"')
LETTER = re.compile(r'name="letter" value="([^"]+)"')


def test_a_group_is_paused_if_it_is_anywhere() -> None:
    assert not is_paused({})
    assert is_paused({"a": GroupSettings(), "b": GroupSettings(is_enabled=False)})


def test_targets_of_a_reset() -> None:
    assert target_of("first", "", "") is StartFrom.FIRST
    assert target_of("offset", "", "12") == 12
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert target_of("time", "2026-01-01T12:00", "") == noon
    assert target_of("time", "2026-01-01T13:00+01:00", "") == noon


@pytest.mark.parametrize(
    ("to", "moment", "offset"),
    [("time", "noon", ""), ("offset", "", "-1"), ("offset", "", "9" * 30), ("nowhere", "", "")],
)
def test_other_targets_are_refused(to: str, moment: str, offset: str) -> None:
    with pytest.raises(BadInput):
        target_of(to, moment, offset)


async def test_a_group_is_moved_after_a_preview_and_paused() -> None:
    async def bill(_message: ReceivedMessage) -> None:
        pass

    async with Cluster() as cluster, AsyncAdmin(cluster.name_server) as admin:
        topic = await cluster.new_topic("orders", queues=1)
        async with AsyncProducer(cluster.name_server, "shop") as producer:
            for number in range(10):
                await producer.send(Message(topic, b"%d" % number))
        consumer = AsyncPushConsumer(
            cluster.name_server, "billing", bill, start_from=StartFrom.FIRST
        )
        consumer.subscribe(topic)
        async with consumer:
            await cluster.consumed("billing")
        async with dashboard(cluster.name_server, allows_changes=True) as visitor:
            token = await visitor.token("/groups/billing")
            wanted = {"topic": "orders", "to": "offset", "offset": "4"}
            status, text = await visitor.post("/groups/billing/preview", wanted, token=token)
            assert status == 200
            plan = PLAN.search(text)
            assert plan is not None
            assert (await admin.progress("billing", topic=topic)).lag == 0
            done = await visitor.post("/groups/billing/reset", {"plan": plan[1]}, token=token)
            assert done == (303, "/groups/billing")
            assert (await admin.progress("billing", topic=topic)).lag == 6
            assert "6 are read again" in (await visitor.get("/groups/billing"))[1]
            # A plan is applied once.
            await visitor.post("/groups/billing/reset", {"plan": plan[1]}, token=token)
            assert "too old" in (await visitor.get("/groups/billing"))[1]

            await visitor.post("/groups/billing/pause", {}, token=token)
            assert is_paused(await admin.group_settings("billing"))
            await visitor.post("/groups/billing/resume", {}, token=token)
            assert not is_paused(await admin.group_settings("billing"))


async def test_dead_letters_are_ticked_shown_sent_again_and_exported() -> None:
    async def fail(message: ReceivedMessage) -> None:
        if b"bad" in message.body:
            raise DeadLetter("<img src=x onerror=alert(1)>")

    async with Cluster() as cluster:
        topic = await cluster.new_topic("orders", queues=1)
        consumer = AsyncPushConsumer(
            cluster.name_server, "billing", fail, start_from=StartFrom.FIRST
        )
        consumer.subscribe(topic)
        async with consumer, AsyncProducer(cluster.name_server, "shop") as producer:
            await producer.send(Message(topic, b"bad", keys=("k",)))
            await cluster.consumed("billing", allow_dead_letters=True)
        async with dashboard(cluster.name_server, allows_changes=True) as visitor:
            place = "/dead-letters/billing"
            token = await visitor.token(place)
            _, text = await visitor.get(place)
            assert "<img src=x" not in text
            (letter,) = LETTER.findall(text)
            assert (await visitor.post(f"{place}/preview", {}, token=token))[0] == 400
            gone = {"letter": "broker-a/0/99"}
            assert (await visitor.post(f"{place}/preview", gone, token=token))[0] == 400
            _, text = await visitor.post(f"{place}/preview", {"letter": letter}, token=token)
            assert len(cluster.received("orders")) == 1
            plan = PLAN.search(text)
            assert plan is not None
            await visitor.post(f"{place}/resend", {"plan": plan[1]}, token=token)
            assert [each.body for each in cluster.received("orders")] == [b"bad", b"bad"]
            assert "sent again" in (await visitor.get(place))[1]
            _, lines = await visitor.get(f"{place}/export")
    assert '"keys":"k"' in lines
    assert lines.count("\n") == 1
