"""Why several kinds of requests are refused."""

from pathlib import Path

import pytest

from roquet.broker.handlers.answers import invalid
from roquet.broker.settings.config import BrokerRole
from roquet.protocol.bodies.groups import GroupConfig, GroupConfigList
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigList
from roquet.protocol.codes import VERSION_5_0_0, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import AddressedHeader, Header
from roquet.protocol.headers.groups import (
    CloneGroupOffsetHeader,
    DeleteGroupHeader,
    ResetOffsetHeader,
)
from roquet.protocol.headers.topics import CreateTopicHeader, DeleteTopicHeader
from tests.support.broker_bed import VERSION_4_9_7, VERSION_5_5_0, broker_bed


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (VERSION_5_0_0 - 1, ResponseCode.SYSTEM_ERROR),
        (VERSION_5_0_0, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_5_x_learns_that_a_parameter_cannot_be(version: int, code: ResponseCode) -> None:
    refusal = invalid(Command(RequestCode.GET_MAX_OFFSET, version=version), "no")
    assert (refusal.code, refusal.remark) == (code, "no")


TOPIC = TopicConfig(topic_name="t")
GROUP = GroupConfig(group_name="g")


@pytest.mark.parametrize("version", [VERSION_4_9_7, VERSION_5_5_0])
@pytest.mark.parametrize(
    ("code", "header", "body"),
    [
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            CreateTopicHeader(
                topic="t",
                default_topic="TBW102",
                read_queue_nums=1,
                write_queue_nums=1,
                perm=6,
                topic_filter_type="SINGLE_TAG",
            ),
            b"",
        ),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            AddressedHeader(),
            TopicConfigList(topic_config_list=[TOPIC]),
        ),
        (RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic="TopicA"), b""),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, AddressedHeader(), GROUP),
        (
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            AddressedHeader(),
            GroupConfigList(group_config_list=[GROUP]),
        ),
        (
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
            DeleteGroupHeader(group_name="TOOLS_CONSUMER", remove_offset=True),
            b"",
        ),
        (
            RequestCode.CLONE_GROUP_OFFSET,
            CloneGroupOffsetHeader(src_group="TOOLS_CONSUMER", dest_group="g"),
            b"",
        ),
        (
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            ResetOffsetHeader(topic="TopicA", group="TOOLS_CONSUMER", timestamp=-1, is_force=True),
            b"",
        ),
    ],
)
async def test_a_slave_changes_none_of_the_tables_that_it_copies(
    tmp_path: Path, version: int, code: RequestCode, header: Header, body: object
) -> None:
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        broker = bed.broker
        broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        broker.tables.offsets.commit("TOOLS_CONSUMER", "TopicA", 0, 5)
        tables = (broker.tables.topics, broker.tables.groups, broker.tables.offsets)
        before = [table.change_count for table in tables]
        reply = await bed.connect().ask(code, header, body, version=version)
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "master" in (reply.remark or "")
        assert [table.change_count for table in tables] == before
