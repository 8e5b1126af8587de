"""Settings from a properties file of Apache."""

from pathlib import Path

import pytest

from roquet.namesrv.config import (
    NameServerConfig,
    change_config,
    config_texts,
    has_effect,
    is_changeable,
    read_config,
)
from roquet.namesrv.errors import BadSetting


def test_without_settings_only_this_machine_is_let_in() -> None:
    assert read_config({}) == (NameServerConfig(), [])
    assert NameServerConfig().host == "127.0.0.1"
    assert NameServerConfig().port == 9876


def test_known_settings_are_obeyed_and_the_others_named() -> None:
    config, ignored = read_config(
        {
            "listenPort": " 19876 ",
            "bindAddress": "10.0.0.1",
            "kvConfigPath": "/data/kv.json",
            "serverChannelMaxIdleTimeSeconds": "60",
            "scanNotActiveBrokerInterval": "1000",
            "orderMessageEnable": "True",
            "returnOrderTopicConfigToBroker": "false",
            "serverWorkerThreads": "8",
            "typo": "x",
        }
    )
    assert config == NameServerConfig(
        host="10.0.0.1",
        port=19876,
        kv_config_path=Path("/data/kv.json"),
        idle_timeout_s=60,
        expiry_period_ms=1000,
        routes_show_order=True,
        brokers_learn_order=False,
    )
    assert ignored == ["serverWorkerThreads", "typo"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("listenPort", "many"),
        ("listenPort", "-1"),
        ("listenPort", "0"),
        ("listenPort", "65536"),
        ("listenPort", "²"),
        ("serverChannelMaxIdleTimeSeconds", "0"),
        ("scanNotActiveBrokerInterval", "99999999999"),
        ("orderMessageEnable", "yes"),
    ],
)
def test_values_of_the_wrong_kind_are_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=name):
        read_config({name: text})


def test_shown_settings_can_be_read_again() -> None:
    config = NameServerConfig(port=1234, routes_show_order=True)
    assert read_config(config_texts(config)) == (config, [])


def test_paths_ports_and_addresses_cannot_be_changed_while_running() -> None:
    assert {name for name in config_texts(NameServerConfig()) if is_changeable(name)} == {
        "orderMessageEnable",
        "returnOrderTopicConfigToBroker",
    }


def test_settings_without_effect_change_nothing() -> None:
    assert is_changeable("serverWorkerThreads")
    assert not has_effect("serverWorkerThreads")
    config = NameServerConfig()
    assert change_config(config, {"serverWorkerThreads": "8"}) == config
