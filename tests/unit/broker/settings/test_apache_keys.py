"""Settings of a broker under Apache's names."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roquet.access.accounts import OwnAccount
from roquet.broker.errors import NotChangeable
from roquet.broker.settings.apache_keys import (
    TREATMENTS,
    change_config,
    config_texts,
    doubtful_booleans,
    read_config,
)
from roquet.broker.settings.config import BrokerConfig, BrokerRole
from roquet.broker.settings.not_obeyed import HARMLESS, UNSUPPORTED
from roquet.protocol.codes import ResponseCode
from roquet.protocol.properties_text import read_properties_text, write_properties_text
from roquet.settings.options import ConfigError
from roquet.store.config import DELAY_LEVELS_MS, FlushMode, StoreConfig
from tests.support.golden_frames import golden_frames
from tests.support.raising import raises

ROOT = Path("somewhere")
DEFAULT = BrokerConfig(store=StoreConfig(root=ROOT))


def read(**settings: str) -> BrokerConfig:
    return read_config(settings, ROOT).config


def recorded_settings(server: str) -> list[dict[str, str]]:
    """What real brokers say of themselves."""
    return [
        read_properties_text(frame.command.body)
        for frame in golden_frames()
        if frame.request_code == 26
        and frame.kind == "response"
        and f"_s{server}_" in frame.scenario
    ]


# --- reading ---


def test_without_settings_everything_is_as_in_apache() -> None:
    assert read_config({}, ROOT) == (DEFAULT, [])


# Of 5.x.
POP_KEYS = {
    "defaultMessageRequestMode",
    "defaultPopShareQueueNum",
    "enablePopMessageThreshold",
    "enableRetryTopicV2",
    "initPopOffsetByCheckMsgInMem",
    "maxPopPollingSize",
    "popFromRetryProbability",
    "popInflightMessageThreshold",
    "popPollingSize",
    "popResponseReturnActualRetryTopic",
    "popReviveSkipIfGroupAbsent",
    "retrieveMessageFromPopRetryTopicV1",
    "serverLoadBalancerEnable",
}


def test_pops_are_set_up_as_at_a_real_broker() -> None:
    ours = config_texts(DEFAULT)
    recorded = recorded_settings("55")
    assert recorded
    for theirs in recorded:
        assert {key: ours[key] for key in POP_KEYS} == {key: theirs[key] for key in POP_KEYS}


def test_the_defaults_are_those_of_a_real_broker() -> None:
    # What was set for the recording, and what differs from machine to machine.
    set_for_it = {
        *("brokerIP1", "brokerIP2", "brokerName", "haListenPort", "listenPort", "namesrvAddr"),
        *("storePathCommitLog", "storePathRootDir", "enablePropertyFilter", "traceTopicEnable"),
        *("transactionCheckInterval", "transactionCheckMax", "transactionTimeOut"),
        "maxTransferCountOnMessageInMemory",
        "flushDelayOffsetInterval",
    }
    # What differs on purpose.
    assert config_texts(DEFAULT)["flushDelayOffsetInterval"] == "1000"
    # And what we do not do by default: it deletes messages that may not be consumed yet.
    set_for_it.add("cleanFileForciblyEnable")
    # Or it refuses what senders might wait for.
    set_for_it.add("waitTimeMillsInSendQueue")
    ours = config_texts(DEFAULT)
    recorded = recorded_settings("49")
    assert recorded
    for theirs in recorded:
        shared = (ours.keys() & theirs.keys()) - set_for_it
        assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
        # These are from 5.x, options of the Java machine, or ours.
        assert ours.keys() - theirs.keys() - POP_KEYS == {
            "aclAdminRequiresTls",
            "authenticationEnabled",
            "authenticationWhitelist",
            "authorizationEnabled",
            "authorizationWhitelist",
            "bindAddress",
            "checkCRCOnRead",
            "configBlackList",
            "diskSpaceCleanForciblyRatio",
            "diskSpaceWarningLevelRatio",
            "grpcSignatureMaxAgeSeconds",
            "maxTransferBytesOnBulkPull",
            "recallMessageEnable",
            "autoCreateGroupMax",
            "autoCreateTopicMax",
            "maxAcceptsPerSecond",
            "maxConnections",
            "maxConnectionsPerAddress",
            "maxConsumerOffsets",
            "maxHeldBytes",
            "maxMemberships",
            "maxQueueLocks",
            "maxRequestsPerConnection",
            "maxSubscriptionBytes",
            "maxWaitingRequests",
            "enabledAppendPropCRC",
            "logLevel",
            "replication.copies",
            "replication.etcd",
            "replication.lagSeconds",
            "replication.leaseSeconds",
            "replication.plainSlaves",
        }


@pytest.mark.parametrize("server", ["49", "55"])
def test_the_settings_of_real_brokers_can_be_read(server: str) -> None:
    for settings in recorded_settings(server):
        config, ignored = read_config(settings, ROOT)
        assert config.broker_name == "broker-a"
        assert config.sql_filters
        assert config.transaction_timeout_ms == 1_000
        assert config.store.root == Path(settings["storePathRootDir"])
        assert "sendMessageThreadPoolNums" in ignored


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("namesrvAddr", "", {"name_servers": ()}),
        ("namesrvAddr", "a:1; b:2;", {"name_servers": ("a:1", "b:2")}),
        ("listenPort", " 10921 ", {"listen_port": 10921}),
        ("listenPort", "0", {"listen_port": 0}),
        ("listenPort", "65534", {"listen_port": 65534}),
        ("autoCreateTopicEnable", "FALSE", {"create_topics": False}),
        ("autoCreateTopicEnable", " TRUE", {"create_topics": True}),
        ("autoCreateTopicEnable", "yes", {"create_topics": False}),
        ("autoCreateTopicEnable", "", {"create_topics": False}),
        ("syncFlushTimeout", "7000", {"sync_timeout_ms": 7_000}),
        ("configBlackList", "fileReservedTime; x;", {"locked_settings": ("fileReservedTime", "x")}),
        ("registerNameServerPeriod", "1", {"register_interval_ms": 10_000}),
        ("registerNameServerPeriod", "99999", {"register_interval_ms": 60_000}),
        (
            "startAcceptSendRequestTimeStamp",
            "4102444800000",
            {"accept_sends_from_ms": 4102444800000},
        ),
        ("msgTraceTopicName", "traces", {"trace_topic": "traces"}),
        ("brokerRole", "SYNC_MASTER", {"role": BrokerRole.SYNC_MASTER}),
        ("brokerRole", "SLAVE", {"role": BrokerRole.SLAVE, "broker_id": 1}),
        ("haListenPort", "11111", {"ha_port": 11111}),
        ("haListenPort", "0", {"ha_port": 10912}),
        ("haMasterAddress", "10.1.2.3:10912", {"ha_master_address": "10.1.2.3:10912"}),
        ("haMasterAddress", "", {"ha_master_address": None}),
        ("haSendHeartbeatInterval", "1000", {"ha_heartbeat_interval_ms": 1000}),
        ("haHousekeepingInterval", "7000", {"ha_silence_ms_max": 7000}),
        ("haTransferBatchSize", "65536", {"ha_frame_size_max": 65536}),
        ("haSlaveFallbehindMax", "1024", {"ha_lag_size_max": 1024}),
        ("haMaxGapNotInSync", "1024", {"ha_lag_size_max": 1024}),
        ("slaveTimeout", "500", {"slave_timeout_ms": 500}),
        ("slaveReadEnable", "true", {"slaves_are_read": True}),
        ("offsetCheckInSlave", "true", {"slave_checks_offsets": True}),
    ],
)
def test_a_setting_of_the_broker_is_read(key: str, text: str, expected: dict[str, Any]) -> None:
    read_back = read_config({"brokerId": "1", key: text}, ROOT).config
    assert {name: getattr(read_back, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("storePathRootDir", "there/store", {"root": Path("there/store")}),
        ("storePathCommitLog", "fast/log", {"commit_log_directory": Path("fast/log")}),
        ("mappedFileSizeCommitLog", "32768", {"commit_log_file_size": 32768}),
        ("mapedFileSizeCommitLog", "32768", {"commit_log_file_size": 32768}),
        ("mapedFileSizeConsumeQueue", "200", {"queue_file_size": 200}),
        ("mappedFileSizeConsumeQueue", "20", {"queue_file_size": 20}),
        ("mappedFileSizeConsumeQueue", "201", {"queue_file_size": 220}),
        ("flushDiskType", "SYNC_FLUSH", {"flush_mode": FlushMode.SYNC}),
        ("deleteWhen", "04", {"delete_hours": (4,)}),
        ("deleteWhen", "0;16", {"delete_hours": (0, 16)}),
        (
            "messageDelayLevel",
            "1s 90s 2m 3h 1d",
            {"delay_levels_ms": (1_000, 90_000, 120_000, 10_800_000, 86_400_000)},
        ),
    ],
)
def test_a_setting_of_the_store_is_read(key: str, text: str, expected: dict[str, Any]) -> None:
    store = read(**{key: text}).store
    assert {name: getattr(store, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("brokerName", " "),
        ("brokerRole", "MASTER"),
        ("haMasterAddress", "somewhere"),
        ("brokerPermission", "8"),
        ("listenPort", "65535"),
        ("listenPort", "-1"),
        ("startAcceptSendRequestTimeStamp", str(2**63)),
        ("listenPort", "1_0"),
        ("listenPort", "ten"),
        ("listenPort", "9" * 5000),
        ("namesrvAddr", "a"),
        ("msgTraceTopicName", "a/b"),
        ("storePathRootDir", ""),
        ("storePathCommitLog", "a,b"),
        ("mappedFileSizeConsumeQueue", "19"),
        ("mappedFileSizeConsumeQueue", str(2**31)),
        ("flushDiskType", "sync"),
        ("deleteWhen", "24"),
        ("deleteWhen", ""),
        ("deleteWhen", "noon"),
        ("messageDelayLevel", ""),
        ("messageDelayLevel", "1s 5x"),
        ("messageDelayLevel", "1s5s"),
        ("diskMaxUsedSpaceRatio", "101"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_key(key: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**{key: text})
    assert (caught.value.key, caught.value.text) == (key, text)
    assert key in str(caught.value)


def test_unknown_settings_are_named() -> None:
    settings = {"brokerName": "a", "noSuchOther": "x", "noSuchThing": "1"}
    assert read_config(settings, ROOT).ignored == ["noSuchOther", "noSuchThing"]


def test_a_master_has_id_0() -> None:
    assert read(brokerId="3").broker_id == 0
    assert read(brokerId="3", brokerRole="SYNC_MASTER").broker_id == 0


def test_a_slave_needs_an_id_of_its_own() -> None:
    with raises(ConfigError, key="brokerId"):
        read(brokerRole="SLAVE")


def test_what_is_false_only_to_java_is_named() -> None:
    settings = {"traceOn": "yes", "longPollingEnable": "False", "brokerName": "yes"}
    assert doubtful_booleans(settings) == ["traceOn"]


@pytest.mark.parametrize("server", ["49", "55"])
def test_every_key_of_a_real_broker_has_a_documented_treatment(server: str) -> None:
    for settings in recorded_settings(server):
        assert not settings.keys() - TREATMENTS.keys()


def test_nothing_that_is_obeyed_or_refused_is_called_harmless() -> None:
    obeyed = config_texts(DEFAULT).keys()
    assert HARMLESS.keys().isdisjoint(obeyed | UNSUPPORTED.keys())


def test_an_open_broker_may_say_that_it_is_open() -> None:
    config, ignored = read_config({"aclEnable": "false", "brokerRole": "ASYNC_MASTER"}, ROOT)
    assert config.role is BrokerRole.ASYNC_MASTER
    assert not config.access_control
    assert not ignored


def test_an_access_control_that_is_neither_on_nor_off_is_refused() -> None:
    with raises(ConfigError, key="aclEnable", text="yes"):
        read(aclEnable="yes")


def test_the_account_of_a_broker_is_obeyed_and_never_shown() -> None:
    config = read(
        innerClientAuthenticationCredentials='{"accessKey":"broker-a","secretKey":"hush-hush"}'
    )
    assert config.own_account == OwnAccount("broker-a", "hush-hush")
    assert "hush" not in f"{config!r} {config_texts(config)}"
    with pytest.raises(ConfigError) as caught:
        read(innerClientAuthenticationCredentials='{"secretKey":"hush-hush"}')
    assert "hush" not in f"{caught.value} {caught.value.text}"


@pytest.mark.parametrize(
    ("settings", "host"),
    [
        ({}, "127.0.0.1"),
        # What clients connect to need not be an address of this machine at all.
        ({"brokerIP1": "10.1.2.3"}, "127.0.0.1"),
        ({"brokerIP1": "10.1.2.3", "bindAddress": "0.0.0.0"}, "0.0.0.0"),  # noqa: S104
    ],
)
def test_only_this_machine_is_served_unless_an_address_is_named(
    settings: dict[str, str], host: str
) -> None:
    assert read(**settings).bind_host == host


@pytest.mark.parametrize("key", ["brokerIP1", "brokerIP2"])
def test_no_client_is_sent_to_a_wildcard(key: str) -> None:
    with raises(ConfigError, key=key, text="0.0.0.0"):  # noqa: S104
        read(**{key: "0.0.0.0"})  # noqa: S104


# --- writing ---


def test_what_is_written_is_read_back() -> None:
    config = BrokerConfig(
        store=StoreConfig(
            root=Path("a/store"),
            commit_log_directory=Path("b/log"),
            flush_mode=FlushMode.SYNC,
            delete_hours=(3, 15),
            delay_levels_ms=(*DELAY_LEVELS_MS, 90_000, 86_400_000),
            write_checksums=False,
        ),
        broker_name="broker-b",
        permission=4,
        bind_address="10.1.2.3",
        advertised_host="10.1.2.4",
        ha_advertised_host="10.1.2.5",
        ha_listen_port=11912,
        ha_master_address="10.1.2.6:10912",
        name_servers=("a:1", "b:2"),
        sql_filters=True,
        register_interval_ms=20_000,
    )
    lines = write_properties_text(config_texts(config))
    read_back, ignored = read_config(read_properties_text(lines), ROOT)
    assert read_back == config
    assert ignored == []


def test_unset_options_are_written_with_their_defaults() -> None:
    texts = config_texts(replace(DEFAULT, listen_port=10921))
    assert texts["bindAddress"] == texts["brokerIP1"] == texts["brokerIP2"] == "127.0.0.1"
    assert texts["haListenPort"] == "10922"
    assert texts["storePathCommitLog"] == "somewhere/commitlog"
    assert texts["messageDelayLevel"].startswith("1s 5s 10s 30s 1m 2m")


# --- changing ---


def test_settings_are_changed_while_the_broker_runs() -> None:
    changed = change_config(
        DEFAULT,
        {"brokerPermission": "4", "fileReservedTime": "48", "sendMessageThreadPoolNums": "16"},
    )
    assert changed == replace(
        DEFAULT, permission=4, store=replace(DEFAULT.store, reserved_hours=48)
    )
    assert DEFAULT.permission == 6


@pytest.mark.parametrize(
    "key",
    [
        *("storePathRootDir", "storePathCommitLog", "brokerConfigPath", "rocketmqHome"),
        *("configBlackList", "namesrvAddr", "listenPort", "bindAddress", "brokerName", "aclEnable"),
        *("aclFile", "innerClientAuthenticationCredentials"),
        *("messageStorePlugIn", "filterServerNums", "noSuchThing", "mapedFileSizeCommitLog"),
    ],
)
def test_paths_addresses_and_commands_cannot_be_changed(key: str) -> None:
    with pytest.raises(NotChangeable) as caught:
        change_config(DEFAULT, {"brokerPermission": "4", key: "1"})
    assert caught.value.code is ResponseCode.NO_PERMISSION


def test_a_change_has_a_type() -> None:
    with pytest.raises(ConfigError):
        change_config(DEFAULT, {"brokerPermission": "4", "enablePropertyFilter": "on"})
    with pytest.raises(ConfigError):
        change_config(DEFAULT, {"brokerPermission": "x", "enablePropertyFilter": "true"})


def test_what_an_operator_has_locked_cannot_be_changed() -> None:
    locked = read(configBlackList="configBlackList;fileReservedTime")
    with pytest.raises(NotChangeable):
        change_config(locked, {"fileReservedTime": "48"})
    assert change_config(locked, {"brokerPermission": "4"}).permission == 4


@pytest.mark.parametrize("server", ["49", "55"])
def test_what_recorded_tools_changed_can_be_changed(server: str) -> None:
    """But for what a tool should not have changed."""
    seen = 0
    for frame in golden_frames():
        if frame.request_code == 25 and frame.kind == "request" and f"_s{server}" in frame.scenario:
            settings = read_properties_text(frame.command.body)
            if not settings.keys() & {"brokerConfigPath", "rocketmqHome"}:
                assert change_config(DEFAULT, settings) != DEFAULT
                seen += 1
    assert seen
