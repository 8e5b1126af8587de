"""Operators make, change, list and delete groups."""

from pathlib import Path

import pytest

from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.groups import (
    GroupConfig,
    GroupConfigList,
    GroupConfigTable,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import AddressedHeader, field_texts
from roquet.protocol.headers.groups import (
    AllGroupConfigsHeader,
    DeleteGroupHeader,
    GetGroupConfigHeader,
)
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed


async def update(client: BedClient, *groups: GroupConfig) -> ResponseCode:
    if len(groups) == 1:
        code, body = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, write_body(groups[0])
    else:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
        body = write_body(GroupConfigList(group_config_list=list(groups)))
    return ResponseCode((await client.ask(code, AddressedHeader(), body)).code)


def saved_groups(tmp_path: Path) -> dict[str, GroupConfig]:
    content = (tmp_path / "config" / "subscriptionGroup.json").read_bytes()
    return read_body(GroupConfigTable, content).subscription_group_table


@pytest.mark.parametrize("count", [1, 2])
async def test_groups_are_created_as_requested_and_on_disk_before_the_reply(
    bed: BrokerBed, client: BedClient, tmp_path: Path, count: int
) -> None:
    groups = [
        GroupConfig(group_name=f"g{index}", consume_enable=False, retry_max_times=3)
        for index in range(count)
    ]
    assert await update(client, *groups) == ResponseCode.SUCCESS
    for group in groups:
        assert bed.broker.tables.groups.find(group.group_name) == group
        assert saved_groups(tmp_path)[group.group_name] == group


@pytest.mark.parametrize(
    "bad", [GroupConfig(group_name="a/b"), GroupConfig(group_name="g", retry_queue_nums=-1)]
)
async def test_a_group_that_cannot_be_is_refused_and_those_before_it_are_saved(
    bed: BrokerBed, client: BedClient, bad: GroupConfig
) -> None:
    assert await update(client, GroupConfig(group_name="good"), bad) == ResponseCode.SYSTEM_ERROR
    assert "good" in bed.broker.tables.groups
    assert bed.unsaved_files == ["subscriptionGroup.json"]
    assert bad.group_name not in bed.broker.tables.groups


@pytest.mark.parametrize(
    ("header", "has_offsets"),
    [
        (DeleteGroupHeader(group_name="g"), True),
        (DeleteGroupHeader(group_name="g", remove_offset=False), True),
        (DeleteGroupHeader(group_name="g", remove_offset=True), False),
        (DeleteGroupHeader(group_name="g", clean_offset=True), False),
    ],
)
async def test_a_group_is_deleted_with_or_without_its_offsets(
    bed: BrokerBed,
    client: BedClient,
    tmp_path: Path,
    header: DeleteGroupHeader,
    has_offsets: bool,
) -> None:
    await update(client, GroupConfig(group_name="g"))
    bed.broker.tables.offsets.commit("g", "TopicA", 0, 5)
    reply = await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
    assert reply.code == ResponseCode.SUCCESS
    assert "g" not in bed.broker.tables.groups
    assert "g" not in saved_groups(tmp_path)
    assert bool(bed.broker.tables.offsets.topics_of("g")) is has_offsets
    assert bed.has_saved_offsets is not has_offsets


async def test_deleting_what_is_not_there_is_no_mistake(client: BedClient) -> None:
    header = DeleteGroupHeader(group_name="no")
    reply = await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
    assert reply.code == ResponseCode.SUCCESS


async def test_the_settings_of_one_group_are_shown_and_made_if_need_be(
    bed: BrokerBed, client: BedClient
) -> None:
    header = GetGroupConfigHeader(group="g")
    reply = await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
    assert read_body(GroupConfig, reply.body) == GroupConfig(group_name="g")
    assert "g" in bed.broker.tables.groups
    assert bed.unsaved_files == ["subscriptionGroup.json"]


async def test_where_no_group_is_made_an_unknown_one_has_no_settings(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, create_groups=False) as bed:
        header = GetGroupConfigHeader(group="g")
        reply = await bed.connect().ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_all_groups_are_shown_at_once(bed: BrokerBed, client: BedClient) -> None:
    reply = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    table = read_body(GroupConfigTable, reply.body)
    assert table == bed.broker.tables.groups.snapshot()
    count = len(table.subscription_group_table)
    assert field_texts(reply.fields) == {"totalGroupNum": str(count)}


async def test_all_groups_are_shown_page_by_page(bed: BrokerBed, client: BedClient) -> None:
    version = write_body(bed.broker.tables.groups.version).decode()
    header = AllGroupConfigsHeader(group_seq=2, max_group_num=3, data_version=version)
    reply = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
    table = read_body(GroupConfigTable, reply.body)
    names = sorted(group.group_name for group in bed.broker.tables.groups)
    assert list(table.subscription_group_table) == names[2:5]
    assert field_texts(reply.fields) == {"totalGroupNum": str(len(names))}
