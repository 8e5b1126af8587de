"""Topics as rows of a list, and what changes them: with a real cluster."""

from datetime import UTC, datetime

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.groups import GroupMembers
from roquet.client.admin.progress import GroupProgress, QueueProgress
from roquet.client.admin.topics import QueueStatistics, TopicSettings, TopicStatistics
from roquet.client.queue_ref import QueueRef
from roquet.dashboard.pages.topics import kind_of, skewed, topic_rows
from roquet.dashboard.snapshot import GroupDetails, Snapshot, TopicSample
from roquet.testing.cluster import Cluster
from tests.support.dashboards import dashboard

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEW = {
    "name": "orders",
    "read_queues": "2",
    "write_queues": "2",
    "permission": "rw",
}


def queue(number: int, count: int) -> QueueStatistics:
    return QueueStatistics(QueueRef("t", "a", number), 0, count, NOW)


def progress(group: str, lag: int) -> GroupProgress:
    return GroupProgress(
        group, (QueueProgress(QueueRef("t", "a", 0), 100, 100 - lag, 100 - lag, None, None),), 0.0
    )


def test_a_row_names_the_group_with_the_worst_lag() -> None:
    snapshot = Snapshot(
        NOW,
        0.0,
        topics={"t": {"a": TopicSettings()}, "new": {"a": TopicSettings()}},
        groups={"slow": {}, "quick": {}},
        progress={"quick": progress("quick", 1)},
        group_details={"slow": GroupDetails(0.0, progress("slow", 70), GroupMembers(()))},
        topic_samples={"t": TopicSample(0.0, TopicStatistics("t", (queue(0, 100),)), 2.5)},
    )
    known, new = topic_rows(snapshot)
    assert (known.lag, known.worst_group, known.rate, known.messages) == (70, "slow", 2.5, 100)
    assert (new.lag, new.worst_group, new.rate, new.messages) == (None, None, None, None)


def test_the_kind_of_a_topic_is_what_its_brokers_say() -> None:
    assert kind_of([]) == "normal"
    assert kind_of([TopicSettings(is_ordered=True)]) == "ordered"
    assert kind_of([TopicSettings(attributes={"message.type": "FIFO"})]) == "fifo"


def test_queues_with_far_more_than_the_others_are_found() -> None:
    assert skewed([queue(0, 900), queue(1, 50), queue(2, 50)]) == [queue(0, 900)]
    assert skewed([queue(0, 60), queue(1, 1)]) == []
    assert skewed([queue(0, 9000)]) == []


async def test_a_topic_is_created_sent_to_changed_and_deleted() -> None:
    async with (
        Cluster() as cluster,
        AsyncAdmin(cluster.name_server) as admin,
        dashboard(cluster.name_server, allows_changes=True) as visitor,
    ):
        token = await visitor.token("/topics")
        assert await visitor.post("/topics", NEW, token=token) == (303, "/topics/orders")
        assert "Topic orders is created." in (await visitor.get("/topics/orders"))[1]
        assert await visitor.post("/topics", NEW, token=token) == (303, "/topics")
        assert "exists already" in (await visitor.get("/topics"))[1]

        hostile = {"body": "<script>alert(1)</script>", "tags": "a", "keys": "k1 k2"}
        assert (await visitor.post("/topics/orders/send", hostile, token=token))[0] == 303
        (found,) = cluster.received("orders")
        assert (found.body, found.tags, found.keys) == (hostile["body"].encode(), "a", ("k1", "k2"))

        wider = NEW | {"read_queues": "5", "write_queues": "5", "permission": "r"}
        await visitor.post("/topics/orders/change", wider, token=token)
        settings = (await admin.topic_settings("orders"))["broker-a"]
        assert (settings.read_queue_count, int(settings.permission)) == (5, 4)

        await visitor.post("/topics/orders/delete", {"confirm": "other"}, token=token)
        assert "orders" in await admin.topics()
        await visitor.post("/topics/orders/delete", {"confirm": "orders"}, token=token)
        assert "orders" not in await admin.topics()
        _, text = await visitor.get("/audit")
    assert text.count("delete topic orders") == 2
    assert "type orders to confirm" in text


async def test_wrong_input_is_named_and_changes_nothing() -> None:
    async with (
        Cluster() as cluster,
        dashboard(cluster.name_server, allows_changes=True) as visitor,
    ):
        token = await visitor.token("/topics")
        for fields in (
            NEW | {"name": ""},
            NEW | {"read_queues": "0"},
            NEW | {"write_queues": "9" * 5000},
            NEW | {"permission": "x"},
        ):
            status, text = await visitor.post("/topics", fields, token=token)
            assert status == 400, text
        bad_name = NEW | {"name": "no <b>such</b> name"}
        assert await visitor.post("/topics", bad_name, token=token) == (303, "/topics")
        _, text = await visitor.get("/topics")
        assert "no &lt;b&gt;such&lt;/b&gt; name" in text
        assert (await visitor.get("/topics/nowhere"))[0] == 404


async def test_a_read_only_dashboard_has_no_forms_and_refuses_what_they_would_send() -> None:
    async with Cluster() as cluster, dashboard(cluster.name_server) as visitor:
        await cluster.new_topic("orders")
        _, text = await visitor.get("/topics/orders")
        assert "<form" not in text
        token = await visitor.token("/dead-letters/any")
        status, text = await visitor.post("/topics", NEW, token=token)
    assert status == 403
    assert "--allow-changes" in text
