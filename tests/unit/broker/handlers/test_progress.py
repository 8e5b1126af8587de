"""Reports of what is in topics and how far groups have come."""

import pytest

from roquet.protocol.bodies.body import MessageQueue, read_body
from roquet.protocol.bodies.clients import GroupSubscription
from roquet.protocol.bodies.groups import GroupConfig, GroupList
from roquet.protocol.bodies.offsets import (
    ConsumeOffsets,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpans,
)
from roquet.protocol.bodies.topics import TopicConfig, TopicList, TopicOffsets, TopicStats
from roquet.protocol.codes import PullFlag, RequestCode, ResponseCode
from roquet.protocol.headers.groups import (
    BrokerConsumeStatsHeader,
    ConsumeStatsHeader,
    ConsumeTimeSpanHeader,
    SubscriptionByConsumerHeader,
)
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.protocol.headers.topics import (
    TopicConsumersHeader,
    TopicsByConsumerHeader,
    TopicStatsHeader,
)
from tests.support.broker_bed import BedClient, BrokerBed
from tests.support.fake_clock import START_MS


@pytest.fixture
async def busy(bed: BrokerBed) -> BrokerBed:
    """Three messages in queue 0 of TopicA, a second apart, of which group g has read two."""
    for _ in range(3):
        bed.put()
        bed.clock.advance(1)
    bed.broker.tables.groups.update(GroupConfig(group_name="g"))
    bed.broker.tables.offsets.commit("g", "TopicA", 0, 2)
    return bed


def queue(queue_id: int, topic: str = "TopicA") -> MessageQueue:
    return MessageQueue(broker_name="broker-a", queue_id=queue_id, topic=topic)


async def test_a_topic_says_what_each_queue_holds(busy: BrokerBed, client: BedClient) -> None:
    header = TopicStatsHeader(topic="TopicA")
    reply = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, header)
    assert read_body(TopicStats, reply.body).offset_table == {
        queue(0): TopicOffsets(min_offset=0, max_offset=3, last_update_timestamp=START_MS + 2000),
        queue(1): TopicOffsets(min_offset=0, max_offset=0, last_update_timestamp=0),
    }


async def test_a_topic_says_how_much_is_sent_to_it(busy: BrokerBed, client: BedClient) -> None:
    for _ in range(2):
        busy.broker.statistics.count_put("TopicA", 30, 1)
        busy.clock.advance(10)
        busy.broker.statistics.tick()
    header = TopicStatsHeader(topic="TopicA")
    reply = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, header)
    assert read_body(TopicStats, reply.body).topic_put_tps > 0


PROGRESS = {
    queue(0): ConsumeOffsets(
        broker_offset=3, consumer_offset=2, pull_offset=2, last_timestamp=START_MS + 1000
    ),
    queue(1): ConsumeOffsets(),
}


async def consume_stats(
    client: BedClient, topic: str | None = None, topic_list: str | None = None
) -> ConsumeStats:
    header = ConsumeStatsHeader(consumer_group="g", topic=topic, topic_list=topic_list)
    reply = await client.ask(RequestCode.GET_CONSUME_STATS, header)
    return read_body(ConsumeStats, reply.body)


async def test_a_group_says_how_far_it_has_pulled_whatever_it_committed(
    busy: BrokerBed, client: BedClient
) -> None:
    pull = PullMessageHeader(
        consumer_group="g",
        topic="TopicA",
        queue_id=0,
        queue_offset=2,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    await client.ask(RequestCode.PULL_MESSAGE, pull)
    offsets = (await consume_stats(client)).offset_table[queue(0)]
    assert (offsets.consumer_offset, offsets.pull_offset) == (2, 3)


@pytest.mark.parametrize(
    "asked", [{}, {"topic": "TopicA"}, {"topic": "", "topic_list": "TopicA;gone;"}]
)
async def test_a_group_says_how_far_it_is_in_each_queue(
    busy: BrokerBed, client: BedClient, asked: dict[str, str]
) -> None:
    stats = await consume_stats(client, **asked)
    assert stats.offset_table == PROGRESS
    assert stats.consume_tps == 0


async def test_what_a_group_reads_in_all_its_topics_is_added_up(
    busy: BrokerBed, client: BedClient
) -> None:
    busy.broker.tables.topics.update(
        TopicConfig(topic_name="TopicB", read_queue_nums=1, write_queue_nums=1)
    )
    busy.broker.tables.offsets.commit("g", "TopicB", 0, 0)
    statistics = busy.broker.statistics
    rates = {}
    for topic, count in {"TopicA": 30, "TopicB": 60}.items():
        statistics.count_get("g", topic, count, 1)
    busy.clock.advance(10)
    statistics.tick()
    rates = {topic: statistics.get_rate("g", topic) for topic in ("TopicA", "TopicB")}
    assert 0 < rates["TopicA"] < rates["TopicB"]
    stats = await consume_stats(client)
    assert stats.offset_table == PROGRESS | {queue(0, "TopicB"): ConsumeOffsets()}
    assert stats.consume_tps == pytest.approx(sum(rates.values()))


async def test_a_topic_that_a_connected_group_has_given_up_is_left_out(
    busy: BrokerBed, client: BedClient
) -> None:
    await client.beat("c1", reads={"g": []})
    assert (await consume_stats(client)).offset_table == PROGRESS
    await client.beat("c1", reads={"g": ["TopicB"]})
    assert (await consume_stats(client)).offset_table == {}
    await client.beat("c1", reads={"g": ["TopicA"]})
    assert (await consume_stats(client)).offset_table == PROGRESS


@pytest.mark.parametrize("is_order", [False, True])
async def test_all_groups_of_a_broker_say_how_far_they_are(
    busy: BrokerBed, client: BedClient, is_order: bool
) -> None:
    header = BrokerConsumeStatsHeader(is_order=is_order)
    reply = await client.ask(RequestCode.GET_BROKER_CONSUME_STATS, header)
    report = read_body(ConsumeStatsList, reply.body)
    assert report.broker_addr == "127.0.0.1:10911"
    by_group = {
        group: [stats.offset_table for stats in all_stats]
        for groups in report.consume_stats_list
        for group, all_stats in groups.items()
    }
    assert by_group == ({} if is_order else {"g": [PROGRESS]})
    assert report.total_diff == (0 if is_order else 1)


async def test_ordered_topics_are_shown_on_request(busy: BrokerBed, client: BedClient) -> None:
    busy.broker.tables.topics.set_ordered({"TopicA"})
    header = BrokerConsumeStatsHeader(is_order=True)
    reply = await client.ask(RequestCode.GET_BROKER_CONSUME_STATS, header)
    assert read_body(ConsumeStatsList, reply.body).total_diff == 1


async def test_a_group_says_how_old_is_what_it_reads(busy: BrokerBed, client: BedClient) -> None:
    busy.clock.advance(4)
    header = ConsumeTimeSpanHeader(topic="TopicA", group="g")
    reply = await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, header)
    first, empty = read_body(ConsumeTimeSpans, reply.body).consume_time_span_set
    assert first.message_queue == queue(0)
    assert (first.min_time_stamp, first.max_time_stamp) == (START_MS, START_MS + 2000)
    assert first.consume_time_stamp == START_MS + 1000
    assert first.delay_time == 5000  # The third message is seven seconds younger than now.
    assert empty.message_queue == queue(1)
    assert (empty.min_time_stamp, empty.max_time_stamp) == (-1, -1)
    assert (empty.consume_time_stamp, empty.delay_time) == (-1, 0)


async def test_a_group_that_has_read_nothing_is_as_late_as_the_first_message(
    busy: BrokerBed, client: BedClient
) -> None:
    header = ConsumeTimeSpanHeader(topic="TopicA", group="new")
    reply = await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, header)
    span = read_body(ConsumeTimeSpans, reply.body).consume_time_span_set[0]
    assert (span.consume_time_stamp, span.delay_time) == (START_MS, 3000)


async def test_a_group_that_has_read_everything_is_not_late(
    busy: BrokerBed, client: BedClient
) -> None:
    busy.broker.tables.offsets.commit("g", "TopicA", 0, 3)
    header = ConsumeTimeSpanHeader(topic="TopicA", group="g")
    reply = await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, header)
    span = read_body(ConsumeTimeSpans, reply.body).consume_time_span_set[0]
    assert (span.consume_time_stamp, span.delay_time) == (START_MS + 2000, 0)


async def test_topics_that_are_not_there_have_no_report(client: BedClient) -> None:
    stats = TopicStatsHeader(topic="no")
    reply = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, stats)
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    span = ConsumeTimeSpanHeader(topic="no", group="g")
    reply = await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, span)
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_client_that_reads_a_topic_is_connected_or_has_read_it_before(
    busy: BrokerBed, client: BedClient
) -> None:
    await client.beat("c1", reads={"h": ["TopicA"], "other": ["TopicB"]})
    header = TopicConsumersHeader(topic="TopicA")
    reply = await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
    assert read_body(GroupList, reply.body).group_list == ["g", "h"]


async def test_the_topics_of_a_group_are_those_it_has_read(
    busy: BrokerBed, client: BedClient
) -> None:
    header = TopicsByConsumerHeader(group="g")
    reply = await client.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, header)
    assert read_body(TopicList, reply.body) == TopicList(
        broker_addr="127.0.0.1:10911", topic_list=["TopicA"]
    )


@pytest.mark.parametrize(
    ("group", "topic", "is_there"),
    [("g", "TopicA", True), ("g", "TopicB", False), ("nobody", "TopicA", False)],
)
async def test_the_subscription_of_a_connected_group_is_shown(
    client: BedClient, group: str, topic: str, is_there: bool
) -> None:
    await client.beat("c1", reads={"g": ["TopicA"]})
    header = SubscriptionByConsumerHeader(group=group, topic=topic)
    reply = await client.ask(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
    found = read_body(GroupSubscription, reply.body)
    assert (found.group, found.topic) == (group, topic)
    assert (found.subscription_data is not None) is is_there
