"""Configuration and runtime values."""

import json
import re
from pathlib import Path

import pytest

from roquet.broker.settings.apache_keys import config_texts
from roquet.disk import Space
from roquet.protocol.bodies.body import DataVersion, read_body
from roquet.protocol.bodies.brokers import BrokerStats
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.brokers import BrokerStatsHeader
from roquet.protocol.properties_text import read_properties_text
from roquet.state_file import unsealed
from tests.support.broker_bed import VERSION_4_9_7, VERSION_5_5_0, BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import START_MS
from tests.support.faulty_disk import FaultyDisk
from tests.support.golden_frames import golden_frames


async def config_version(client: BedClient) -> DataVersion:
    reply = await client.ask(RequestCode.GET_BROKER_CONFIG)
    return read_body(DataVersion, field_texts(reply.fields)["version"].encode())


async def update(client: BedClient, settings: bytes, version: int = VERSION_4_9_7) -> ResponseCode:
    reply = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, settings, version=version)
    return ResponseCode(reply.code)


async def test_the_configuration_is_shown_under_the_names_of_apache(
    bed: BrokerBed, client: BedClient
) -> None:
    reply = await client.ask(RequestCode.GET_BROKER_CONFIG)
    shown = read_properties_text(reply.body)
    # Some tools of Apache fail without it.
    assert shown.pop("filterServerNums") == "0"
    assert shown == config_texts(bed.broker.config)
    assert (await config_version(client)).counter == 0


async def test_what_may_be_changed_is_changed_at_once(bed: BrokerBed, client: BedClient) -> None:
    settings = b"longPollingEnable=false\nsendMessageThreadPoolNums=7\n"
    assert await update(client, settings) == ResponseCode.SUCCESS
    assert bed.broker.config.long_polling is False
    assert await config_version(client) == DataVersion(counter=1, timestamp=START_MS)
    assert not bed.wants_to_register


async def test_a_change_is_on_disk_when_it_is_answered_and_survives_a_restart(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config" / "changedSettings.json"
    async with broker_bed(tmp_path) as bed:
        assert not file.exists()
        settings = b"fileReservedTime=48\nbrokerPermission=4\nsendMessageThreadPoolNums=7\n"
        assert await update(bed.connect(), settings) == ResponseCode.SUCCESS
        assert json.loads(unsealed(file.read_bytes())) == {
            "fileReservedTime": {"value": "48", "started_with": "72"},
            "brokerPermission": {"value": "4", "started_with": "6"},
        }
    async with broker_bed(tmp_path, permission=2) as bed:
        config = bed.broker.config
        # The file says something new about one of them.
        assert (config.store.reserved_hours, config.permission) == (48, 2)
    async with broker_bed(tmp_path) as bed:
        assert bed.broker.config.permission == 6


async def test_a_change_that_cannot_be_saved_is_reported(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    async with broker_bed(tmp_path, disk=disk) as bed:
        client = bed.connect()
        disk.is_full = True
        reply = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=4\n")
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "changed, but not saved" in (reply.remark or "")
        disk.is_full = False
        assert await update(client, b"brokerPermission=2\n") == ResponseCode.SUCCESS


async def test_what_changes_nothing_is_named_in_the_answer(client: BedClient) -> None:
    settings = b"longPollingEnable=false\nsendMessageThreadPoolNums=7\n"
    reply = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, settings)
    assert reply.code == ResponseCode.SUCCESS
    assert reply.remark == "without effect here: sendMessageThreadPoolNums"


async def test_another_permission_is_registered(bed: BrokerBed, client: BedClient) -> None:
    known_version = bed.broker.tables.topics.version
    assert await update(client, b"brokerPermission=4\n") == ResponseCode.SUCCESS
    # Name servers take no topics under a version that they know.
    assert bed.broker.tables.topics.version != known_version
    assert bed.broker.config.permission == 4
    assert bed.wants_to_register


@pytest.mark.parametrize(
    ("settings", "version", "code"),
    [
        (b"rocketmqHome=/x\n", VERSION_4_9_7, ResponseCode.NO_PERMISSION),
        (b"storePathRootDir=/x\n", VERSION_5_5_0, ResponseCode.NO_PERMISSION),
        (b"longPollingEnable=false\nlistenPort=1\n", VERSION_4_9_7, ResponseCode.NO_PERMISSION),
        (b"brokerPermission=x\n", VERSION_4_9_7, ResponseCode.SYSTEM_ERROR),
        (b"brokerPermission=x\n", VERSION_5_5_0, ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_what_may_not_be_changed_stays_and_everything_with_it(
    bed: BrokerBed, client: BedClient, settings: bytes, version: int, code: ResponseCode
) -> None:
    before = bed.broker.config
    assert await update(client, settings, version) == code
    assert bed.broker.config is before
    assert (await config_version(client)).counter == 0


async def runtime_info(client: BedClient) -> dict[str, str]:
    reply = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return read_body(KvTable, reply.body).table


@pytest.mark.parametrize("scenario", ["raw_s49_c49", "raw_s55_c55"])
async def test_every_runtime_value_of_apache_is_there(client: BedClient, scenario: str) -> None:
    (golden,) = [
        frame.command.body
        for frame in golden_frames()
        if frame.scenario == scenario and frame.kind == "response" and frame.request_code == 28
    ]
    # Levels come with their messages, a path is that of its own machine, and threads for pops
    # and lite pulls are of no interest to any tool.
    exempt = re.compile(r"scheduleMessageOffset_|commitLogDiskRatio_|(ack|litePull)ThreadPool")
    expected = {name for name in read_body(KvTable, golden).table if not exempt.match(name)}
    assert expected <= (await runtime_info(client)).keys()


async def test_the_log_and_its_disk_are_described(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    disk.free_space = Space(used=3 << 30, usable=(1 << 30) + (1 << 29))
    async with broker_bed(tmp_path, disk=disk) as bed:
        client = bed.connect()
        info = await runtime_info(client)
        assert (info["commitLogMinOffset"], info["commitLogMaxOffset"]) == ("0", "0")
        assert info["earliestMessageTimeStamp"] == "-1"
        assert info["commitLogDirCapacity"] == "Total : 4.5 GiB, Free : 1.5 GiB."
        assert info["commitLogDiskRatio"] == info["consumeQueueDiskRatio"] == "0.67"
        assert info["remainHowManyDataToFlush"] == "0 B"
        appended = bed.put()
        bed.clock.advance(1)
        bed.put()
        info = await runtime_info(client)
        assert info["commitLogMaxOffset"] == str(2 * appended.size)
        assert info["earliestMessageTimeStamp"] == str(START_MS)


async def test_both_spellings_of_what_was_transferred_are_there(client: BedClient) -> None:
    info = await runtime_info(client)
    assert info["getTransferedTps"] == info["getTransferredTps"]
    assert float(info["getTransferedTps"].split(" ")[0]) == 0


async def test_the_version_that_is_shown_is_the_one_we_say_everywhere(client: BedClient) -> None:
    reply = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    info = read_body(KvTable, reply.body).table
    assert info["brokerVersion"] == str(reply.version)
    # A release of 4.9 counts two numbers, from 4.9.0 on.
    assert info["brokerVersionDesc"] == f"V4_9_{(reply.version - 393) // 2}"


async def test_what_was_counted_is_shown_by_name_and_key(bed: BrokerBed, client: BedClient) -> None:
    bed.broker.statistics.count_put("TopicA", 6, 600)
    bed.clock.advance(10)
    bed.broker.statistics.tick()
    header = BrokerStatsHeader(stats_name="TOPIC_PUT_NUMS", stats_key="TopicA")
    reply = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)
    assert read_body(BrokerStats, reply.body).stats_minute.sum == 6
    header = BrokerStatsHeader(stats_name="NOPE", stats_key="x")
    reply = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR
