"""Settings from a properties file of Apache."""

from pathlib import Path

import pytest

from roquet.namesrv.config import (
    UNSUPPORTED,
    NameServerConfig,
    change_config,
    config_texts,
    doubtful_booleans,
    is_changeable,
    is_known,
    read_config,
)
from roquet.namesrv.errors import NotChangeable
from roquet.net.tls.settings import TlsMode
from roquet.protocol.properties_text import read_properties_text
from roquet.settings.options import ConfigError, UnsupportedOption
from tests.support.golden_frames import golden_frames
from tests.support.raising import raises


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
    ],
)
def test_values_of_the_wrong_kind_are_refused_by_name(name: str, text: str) -> None:
    with raises(ConfigError, key=name, text=text):
        read_config({name: text})


def test_shown_settings_can_be_read_again() -> None:
    config = NameServerConfig(port=1234, routes_show_order=True)
    assert read_config(config_texts(config)) == (config, [])


def test_paths_ports_and_addresses_cannot_be_changed_while_running() -> None:
    config = NameServerConfig()
    assert {name for name in config_texts(config) if is_changeable(config, name)} == {
        "logLevel",
        "orderMessageEnable",
        "returnOrderTopicConfigToBroker",
    }


def test_settings_without_effect_change_nothing() -> None:
    config = NameServerConfig()
    assert change_config(config, {"serverWorkerThreads": "8"}) == config


def test_what_an_operator_has_locked_cannot_be_changed() -> None:
    config, _ = read_config({"configBlackList": "configBlackList;orderMessageEnable"})
    with raises(NotChangeable, names=["orderMessageEnable"]):
        change_config(config, {"orderMessageEnable": "true"})
    assert not change_config(
        config, {"returnOrderTopicConfigToBroker": "false"}
    ).brokers_learn_order


def test_booleans_are_parsed_as_java_does_and_the_doubtful_listed() -> None:
    settings = {"orderMessageEnable": "TRUE", "returnOrderTopicConfigToBroker": "yes"}
    config, _ = read_config(settings)
    assert (config.routes_show_order, config.brokers_learn_order) == (True, False)
    assert doubtful_booleans(settings) == ["returnOrderTopicConfigToBroker"]


# For every key a text that requests something, and one that does not.
UNSUPPORTED_TEXTS = {
    "authenticationEnabled": ("True", "false"),
    "authorizationEnabled": ("true", "false"),
    "enableAllTopicList": ("false", "true"),
    "enableControllerInNamesrv": ("TRUE", "false"),
    "enableTopicList": ("false", "true"),
    "needWaitForService": ("true", "false"),
    "supportActingMaster": ("true", "false"),
}


def test_every_unsupported_option_has_its_texts_here() -> None:
    assert UNSUPPORTED_TEXTS.keys() == UNSUPPORTED.keys()


@pytest.mark.parametrize("name", sorted(UNSUPPORTED_TEXTS))
def test_an_unsupported_feature_is_refused_and_anything_else_is_not(name: str) -> None:
    requesting, harmless = UNSUPPORTED_TEXTS[name]
    with raises(UnsupportedOption, key=name, text=requesting):
        read_config({name: requesting})
    assert read_config({name: harmless}).ignored == [name]


def test_tls_is_obeyed_by_its_names_and_refused_by_any_other() -> None:
    config, ignored = read_config({"tls.server.mode": "enforcing"})
    assert config.tls.mode is TlsMode.ENFORCING
    assert not ignored
    with raises(UnsupportedOption, key="tlsEnable", text="true"):
        read_config({"tlsEnable": "true"})


@pytest.mark.parametrize("server", ["49", "55"])
def test_all_settings_of_real_name_servers_are_known(server: str) -> None:
    recorded = [
        read_properties_text(frame.command.body)
        for frame in golden_frames()
        if frame.request_code == 319
        and frame.kind == "response"
        and f"_s{server}_" in frame.scenario
    ]
    assert recorded
    for settings in recorded:
        assert [name for name in settings if not is_known(name)] == []
        assert read_config(settings)
