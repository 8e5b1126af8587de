"""Which dead letters were sent again."""

from collections.abc import AsyncIterator

import pytest

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.dead_letters import LetterPlace, left_count
from roquet.client.admin.topics import QueueStatistics, TopicSettings, TopicStatistics
from roquet.client.queue_ref import QueueRef
from tests.support.drafts import draft
from tests.support.live_cluster import LiveCluster

GROUP = "billing"
DEAD_TOPIC = f"%DLQ%{GROUP}"
ONE_QUEUE = TopicSettings(read_queue_count=1, write_queue_count=1)


@pytest.fixture
async def admin(cluster: LiveCluster) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(cluster.name_server) as admin:
        for topic in ("orders", DEAD_TOPIC):
            await admin.create_topic(topic, ONE_QUEUE)
        for body in (b"1", b"2"):
            marks = {"RETRY_TOPIC": "orders", "UNIQ_KEY": body.decode()}
            cluster.brokers["broker-a"].store.append(
                draft(body, topic=DEAD_TOPIC, properties=marks)
            )
        yield admin


async def test_what_is_sent_again_is_noted(admin: AsyncAdmin) -> None:
    assert await admin.resent(GROUP) == {}
    first, second = await admin.dead_letters(GROUP)
    (receipt,) = await admin.resend([first])
    resent = await admin.resent(GROUP)
    assert {place: each.message_id for place, each in resent.items()} == {
        LetterPlace.of(first): receipt.message_id
    }
    assert resent[LetterPlace.of(first)].when >= first.stored
    (receipt, _) = await admin.resend([first, second])
    resent = await admin.resent(GROUP)
    assert resent.keys() == {LetterPlace.of(first), LetterPlace.of(second)}
    assert resent[LetterPlace.of(first)].message_id == receipt.message_id


async def test_notes_are_of_no_topic_that_programs_see(admin: AsyncAdmin) -> None:
    await admin.resend(await admin.dead_letters(GROUP))
    assert await admin.topics() == ["orders"]
    assert f"%SENT%{GROUP}" in await admin.topics(with_internal=True)


async def test_what_others_write_there_is_no_note(admin: AsyncAdmin, cluster: LiveCluster) -> None:
    await admin.create_topic(f"%SENT%{GROUP}", ONE_QUEUE)
    cluster.brokers["broker-a"].store.append(draft(b"coffee", topic=f"%SENT%{GROUP}"))
    assert await admin.resent(GROUP) == {}


async def test_notes_are_inside_of_a_namespace(cluster: LiveCluster, admin: AsyncAdmin) -> None:
    async with AsyncAdmin(cluster.name_server, namespace="shop") as inside:
        for topic in ("orders", DEAD_TOPIC):
            await inside.create_topic(topic, ONE_QUEUE)
        marks = {"RETRY_TOPIC": "shop%orders", "UNIQ_KEY": "3"}
        cluster.brokers["broker-a"].store.append(
            draft(b"3", topic=f"%DLQ%shop%{GROUP}", properties=marks)
        )
        await inside.resend(await inside.dead_letters(GROUP))
        assert len(await inside.resent(GROUP)) == 1
    assert await admin.resent(GROUP) == {}


@pytest.mark.parametrize(
    ("offsets", "left"),
    [((), 3), ((5,), 2), ((5, 6, 7), 0), ((3, 4), 3), ((4, 5), 2)],
)
def test_dead_letters_that_expired_are_left_out(offsets: tuple[int, ...], left: int) -> None:
    queue = QueueRef(DEAD_TOPIC, "a", 0)
    statistics = TopicStatistics(DEAD_TOPIC, (QueueStatistics(queue, 5, 8, None),))
    places = [LetterPlace("a", 0, offset) for offset in offsets]
    assert left_count(statistics, [*places, LetterPlace("gone", 0, 5)]) == left
