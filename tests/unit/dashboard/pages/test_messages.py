"""Messages are found, and each has its story."""

from datetime import UTC, datetime

import pytest

from roquet.client.admin.deliveries import Deliveries, DeliveryState, GroupDelivery
from roquet.client.admin.inspection import ReplicationStatus, SlaveState
from roquet.client.admin.messages import TraceEvent
from roquet.client.producer.producer import AsyncProducer
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages.changes import moment_of_field
from roquet.dashboard.pages.messages import replicated_step, story_of
from roquet.protocol.messages.message import Message
from roquet.testing.cluster import Cluster
from roquet.testing.messages import received
from tests.support.dashboards import dashboard

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_story_is_sent_stored_traced_and_what_became_of_it() -> None:
    deliveries = Deliveries(
        (
            GroupDelivery("a", DeliveryState.CONSUMED),
            GroupDelivery("b", DeliveryState.WAITS_FOR_RETRY, 2, NOW),
            GroupDelivery("c", DeliveryState.DEAD_LETTER, note="after 3 tries"),
        )
    )
    trace = [TraceEvent("sent", NOW, "shop", "stored"), TraceEvent("delivered", NOW, "a", None)]
    steps = story_of(received(Message("orders", b"1")), deliveries, trace)
    assert [(each.what, each.look, each.group) for each in steps] == [
        ("sent", "good", None),
        ("stored", "good", None),
        ("delivered", "", "a"),
        ("consumed", "good", "a"),
        ("waits for retry", "warn", "b"),
        ("dead letter", "bad", "c"),
    ]
    assert (steps[4].time, steps[4].note) == (NOW, "retry 2")


def test_a_moment_without_a_zone_is_utc() -> None:
    assert moment_of_field(" 2026-01-01T00:00 ") == NOW
    assert moment_of_field("") is None
    with pytest.raises(BadInput, match="is not a time"):
        moment_of_field("yesterday")


async def test_messages_are_found_by_topic_key_id_and_time_and_never_run() -> None:
    hostile = b'{"x": "<script>alert(1)</script>", "y": "\xe2\x80\xae"}'
    async with (
        Cluster() as cluster,
        AsyncProducer(cluster.name_server, "shop") as producer,
        dashboard(cluster.name_server) as visitor,
    ):
        topic = await cluster.new_topic("orders")
        receipt = await producer.send(Message(topic, hostile, "<b>", ("<i>k</i>",)))
        for query in ("", "&key=%3Ci%3Ek%3C/i%3E", "&from=2020-01-01T00:00"):
            status, text = await visitor.get(f"/messages?topic=orders{query}")
            assert status == 200
            assert receipt.message_id in text
            assert "<script>alert" not in text
            assert "<i>k" not in text
        status, _ = await visitor.get(f"/messages?topic=orders&id={receipt.message_id}")
        assert status == 303
        place = f"/messages/orders/{receipt.message_id}"
        for view in ("json", "text", "hex"):
            status, text = await visitor.get(f"{place}?view={view}")
            assert status == 200
            assert "<script>alert" not in text
        assert (await visitor.get("/messages?topic=orders&from=yesterday"))[0] == 400
        assert (await visitor.get(f"/messages/orders/{'0' * 32}"))[0] == 404
        async with visitor.session.get(visitor.base + place + "/body") as answer:
            assert await answer.read() == hostile
            assert answer.headers["Content-Disposition"].startswith("attachment")


def status(*acknowledged: int) -> ReplicationStatus:
    slaves = (SlaveState(f"10.0.0.{end}:1", end, 0, 0, is_in_sync=True) for end in acknowledged)
    return ReplicationStatus(True, 100, 1, tuple(slaves), None)


@pytest.mark.parametrize(
    ("found", "look", "note"),
    [
        (status(100, 60), "good", "2 of 2"),
        (status(100, 59), "warn", "1 of 2"),
        (status(), "warn", "0 of 2"),
        (None, "", "not known"),
    ],
)
def test_a_message_is_replicated_where_the_end_of_its_record_is_confirmed(
    found: ReplicationStatus | None, look: str, note: str
) -> None:
    step = replicated_step(60, 2, found)
    assert (step.what, step.look) == ("replicated", look)
    assert note in step.note
