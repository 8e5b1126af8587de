"""What is decided once for many plain requests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.broker.fast_path.decisions import (
    added_flags,
    draft_of_batches,
    draft_of_sends,
    fast_limits,
    fast_queue_count,
)
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission, PullFlag
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.protocol.names import CLOSED_TOPICS
from tests.support.broker_bed import BrokerBed, broker_bed

TOPIC = TopicConfig(topic_name="TopicA", read_queue_nums=2, write_queue_nums=3)
GROUP = GroupConfig(group_name="readers")
READ = int(Permission.READ)
WRITE = int(Permission.WRITE)


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        yield bed


def pull(expression: str = "*", kind: str = "TAG") -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group="readers",
        topic="TopicA",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=PullFlag.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription=expression,
        expression_type=kind,
    )


async def test_a_plain_send_may_name_any_queue_that_the_handler_takes(bed: BrokerBed) -> None:
    assert fast_queue_count(TOPIC, bed.broker.config) == 3


@pytest.mark.parametrize("name", [*sorted(CLOSED_TOPICS), "%RETRY%readers"])
async def test_sends_to_these_topics_are_not_plain(bed: BrokerBed, name: str) -> None:
    assert not fast_queue_count(replace(TOPIC, topic_name=name), bed.broker.config)


async def test_no_send_is_plain_before_sends_are_accepted(bed: BrokerBed) -> None:
    config = replace(bed.broker.config, accept_sends_from_ms=1)
    assert not fast_queue_count(TOPIC, config)


async def test_an_ordered_topic_of_a_broker_that_is_not_writable_takes_none(bed: BrokerBed) -> None:
    config = replace(bed.broker.config, permission=READ)
    assert fast_queue_count(TOPIC, config)
    assert not fast_queue_count(replace(TOPIC, order=True), config)


def test_a_topic_of_many_tags_marks_its_messages() -> None:
    assert not added_flags(TOPIC)
    assert added_flags(replace(TOPIC, topic_filter_type="MULTI_TAG"))


async def test_messages_of_sends_get_the_cluster_as_a_property(bed: BrokerBed) -> None:
    draft = draft_of_sends(bed.broker, TOPIC)
    assert (draft.topic, draft.properties) == (b"TopicA", bed.broker.messages.cluster_property)


async def test_messages_of_a_batch_get_what_it_brings_but_its_id(bed: BrokerBed) -> None:
    draft = draft_of_batches(bed.broker, TOPIC, "UNIQ_KEY\x01A\x02WAIT\x01true")
    assert draft is not None
    assert draft.properties == b"WAIT\x01true\x02" + bed.broker.messages.cluster_property


@pytest.mark.parametrize("sent", ["DELAY\x011", "WAIT\x01false", "x" * 9_000])
async def test_a_batch_that_wants_more_is_not_plain(bed: BrokerBed, sent: str) -> None:
    assert draft_of_batches(bed.broker, TOPIC, sent) is None


async def test_pulls_by_tags_are_plain(bed: BrokerBed) -> None:
    limits = fast_limits(bed.broker, pull("red || blue"), GROUP, TOPIC)
    assert limits is not None
    assert limits.matches_code is not None


async def test_pulls_by_sql_are_plain(bed: BrokerBed) -> None:
    bed.broker.config = replace(bed.broker.config, sql_filters=True)
    limits = fast_limits(bed.broker, pull("a > 1", "SQL92"), GROUP, TOPIC)
    assert limits is not None
    assert limits.matches_record is not None


@pytest.mark.parametrize(("kind", "expression"), [("TAG", "||"), ("what", "*")])
async def test_other_pulls_are_not(bed: BrokerBed, kind: str, expression: str) -> None:
    bed.broker.config = replace(bed.broker.config, sql_filters=True)
    assert fast_limits(bed.broker, pull(expression, kind), GROUP, TOPIC) is None


async def test_the_fast_path_pulls_nothing_that_may_not_be_read(bed: BrokerBed) -> None:
    broker = bed.broker
    assert fast_limits(broker, pull(), GROUP, TOPIC)
    assert fast_limits(broker, pull(), GROUP, replace(TOPIC, perm=WRITE)) is None
    assert fast_limits(broker, pull(), replace(GROUP, consume_enable=False), TOPIC) is None
    broker.config = replace(broker.config, permission=WRITE)
    assert fast_limits(broker, pull(), GROUP, TOPIC) is None


async def test_a_pull_of_a_group_without_heartbeats_needs_a_subscription(bed: BrokerBed) -> None:
    silent = replace(pull(), sys_flag=0)
    assert fast_limits(bed.broker, silent, GROUP, TOPIC) is None
