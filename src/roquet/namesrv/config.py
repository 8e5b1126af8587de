"""Settings of a name server, under our names and under Apache's.

Apache's names are those of its properties files and of the requests that show and change
settings. What can be changed while running is listed here, and nothing else can.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from roquet.namesrv.errors import BadSetting

PORT_DEFAULT: Final = 9876


class NameServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    # Who is not known may change everything, so only this machine is let in by default.
    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    kv_config_path: Path = Path("~/namesrv/kvConfig.json")
    idle_timeout_s: int = 120
    expiry_period_ms: int = 5_000
    # Whether routes tell clients the fixed queue numbers of ordered topics.
    routes_show_order: bool = False
    # Whether brokers learn of ordered topics when they register.
    brokers_learn_order: bool = True


class ReadConfig(NamedTuple):
    config: NameServerConfig
    ignored: list[str]


def read_config(settings: Mapping[str, str]) -> ReadConfig:
    """Obeys the settings we know and names the others. Raises BadSetting."""
    values = {
        setting.attribute: setting.parse(name, settings[name])
        for name, setting in _SETTINGS.items()
        if name in settings
    }
    ignored = [name for name in settings if name not in _SETTINGS]
    return ReadConfig(NameServerConfig(**values), ignored)


def change_config(config: NameServerConfig, settings: Mapping[str, str]) -> NameServerConfig:
    """Only for names that `is_changeable` allows. Raises BadSetting."""
    return replace(
        config,
        **{
            _SETTINGS[name].attribute: _SETTINGS[name].parse(name, text)
            for name, text in settings.items()
            if name in _SETTINGS
        },
    )


def is_changeable(name: str) -> bool:
    return name in _WITHOUT_EFFECT or (name in _SETTINGS and _SETTINGS[name].is_changeable)


def has_effect(name: str) -> bool:
    return name in _SETTINGS


def config_texts(config: NameServerConfig) -> dict[str, str]:
    """Every setting under Apache's name."""
    return {name: _text(getattr(config, setting.attribute)) for name, setting in _SETTINGS.items()}


class _Setting(NamedTuple):
    attribute: str
    parse: Callable[[str, str], Any]
    is_changeable: bool = False


def _parse_text(_name: str, text: str) -> str:
    return text.strip()


def _parse_path(_name: str, text: str) -> Path:
    return Path(text.strip())


def _parse_count(name: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 2**31):
        raise BadSetting(name, text, "a positive number")
    return int(digits)


def _parse_port(name: str, text: str) -> int:
    port = _parse_count(name, text)
    if port > 0xFFFF:
        raise BadSetting(name, text, "a port")
    return port


def _parse_truth(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise BadSetting(name, text, "true or false")
    return word == "true"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_SETTINGS: Final = {
    "bindAddress": _Setting("host", _parse_text),
    "listenPort": _Setting("port", _parse_port),
    "kvConfigPath": _Setting("kv_config_path", _parse_path),
    "serverChannelMaxIdleTimeSeconds": _Setting("idle_timeout_s", _parse_count),
    "scanNotActiveBrokerInterval": _Setting("expiry_period_ms", _parse_count),
    "orderMessageEnable": _Setting("routes_show_order", _parse_truth, is_changeable=True),
    "returnOrderTopicConfigToBroker": _Setting(
        "brokers_learn_order", _parse_truth, is_changeable=True
    ),
}
assert {setting.attribute for setting in _SETTINGS.values()} == {
    *NameServerConfig.__struct_fields__
}

# Threads and buffers that we do not have. Tools that set them are not refused.
_WITHOUT_EFFECT: Final = frozenset(
    {
        "clientRequestThreadPoolNums",
        "clientRequestThreadPoolQueueCapacity",
        "defaultThreadPoolNums",
        "defaultThreadPoolQueueCapacity",
        "serverAsyncSemaphoreValue",
        "serverCallbackExecutorThreads",
        "serverOnewaySemaphoreValue",
        "serverPooledByteBufAllocatorEnable",
        "serverSelectorThreads",
        "serverSocketBacklog",
        "serverSocketRcvBufSize",
        "serverSocketSndBufSize",
        "serverWorkerThreads",
        "unRegisterBrokerQueueCapacity",
        "useEpollNativeSelector",
        "writeBufferHighWaterMark",
        "writeBufferLowWaterMark",
    }
)
