"""Settings of a name server, under our names and under Apache's.

Apache's names are those of its properties files and of the requests that show and change
settings. What can be changed while running is listed here, and nothing else can. What happens to
a key is said by three tables: obeyed, refused for what it promises, or skipped as harmless.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from roquet.namesrv.errors import BadSetting, NotChangeable
from roquet.namesrv.kv_config import KV_CONFIG_SIZE_MAX
from roquet.namesrv.route_table import ROUTE_COUNT_MAX
from roquet.net.errors import BadAddress
from roquet.net.limits import DEFAULT_LIMITS, DEFAULT_SERVER_LIMITS, ConnectionLimits, ServerLimits
from roquet.net.listening_place import read_place
from roquet.net.tls.settings import TLS_KEYS, TlsSettings, read_tls
from roquet.protocol.host import Address
from roquet.settings import log_level
from roquet.settings.log_level import LogLevel
from roquet.settings.promises import Promise, is_false, refuse_what_is_not_kept
from roquet.settings.truth import is_plain_truth, read_truth, truth_text

PORT_DEFAULT: Final = 9876


class NameServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    # Strangers may change everything, so only this machine is let in by default.
    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    kv_config_path: Path = Path("~/namesrv/kvConfig.json")
    idle_timeout_s: int = 120
    # How much all peers together may take; not keys of Apache's.
    connection_count_max: int = DEFAULT_SERVER_LIMITS.connection_count_max
    connection_count_max_per_address: int = DEFAULT_SERVER_LIMITS.connection_count_max_per_address
    accept_rate_max: int = DEFAULT_SERVER_LIMITS.accept_rate_max
    held_size_max: int = DEFAULT_SERVER_LIMITS.held_size_max
    deferred_count_max: int = DEFAULT_LIMITS.deferred_count_max
    all_deferred_count_max: int = DEFAULT_SERVER_LIMITS.deferred_count_max
    # What tables hold that peers fill; not keys of Apache's.
    route_count_max: int = ROUTE_COUNT_MAX
    kv_config_size_max: int = KV_CONFIG_SIZE_MAX
    tls: TlsSettings = TlsSettings()
    # How others watch it; not keys of Apache's.
    http_place: Address | None = None
    log_level: LogLevel = log_level.DEFAULT
    # Who may do what. Apache's name servers know no such thing; here it is off unless asked for.
    access_control: bool = False
    accounts_file: Path | None = None
    home: Path | None = None
    # Whether requests of administrators, brokers among them, are refused on plain connections.
    admin_requires_tls: bool = False
    expiry_period_ms: int = 5_000
    # Whether routes tell clients the fixed queue numbers of ordered topics.
    routes_show_order: bool = False
    # Whether brokers learn of ordered topics when they register.
    brokers_learn_order: bool = True
    # What no request may change, whatever else may be changed.
    locked_settings: tuple[str, ...] = ("configBlackList", "configStorePath", "kvConfigPath")

    @property
    def server_limits(self) -> ServerLimits:
        return ServerLimits(
            connection_count_max=self.connection_count_max,
            connection_count_max_per_address=self.connection_count_max_per_address,
            accept_rate_max=self.accept_rate_max,
            held_size_max=self.held_size_max,
            deferred_count_max=self.all_deferred_count_max,
        )

    @property
    def limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            idle_timeout_s=self.idle_timeout_s, deferred_count_max=self.deferred_count_max
        )


class ReadNameServerConfig(NamedTuple):
    config: NameServerConfig
    ignored: list[str]


def read_config(settings: Mapping[str, str]) -> ReadNameServerConfig:
    """Obeys the settings we know and names the others.

    Raises BadSetting, BadTlsSetting and PromiseNotKept.
    """
    tls, settings = read_tls(settings)
    refuse_what_is_not_kept(PROMISES, settings)
    values = {
        setting.attribute: setting.parse(name, settings[name])
        for name, setting in _SETTINGS.items()
        if name in settings
    }
    ignored = [name for name in settings if name not in _SETTINGS]
    return ReadNameServerConfig(NameServerConfig(tls=tls, **values), ignored)


def change_config(config: NameServerConfig, settings: Mapping[str, str]) -> NameServerConfig:
    """All of `settings` or, with an error, nothing. Raises NotChangeable and BadSetting."""
    forbidden = [name for name in settings if not is_changeable(config, name)]
    if forbidden:
        raise NotChangeable(forbidden)
    # A file that Apache reads means the same to us; a request can be told of its mistake.
    for name in doubtful_truths(settings):
        raise BadSetting(name, settings[name], "true or false")
    return replace(
        config,
        **{
            _SETTINGS[name].attribute: _SETTINGS[name].parse(name, text)
            for name, text in settings.items()
            if name in _SETTINGS
        },
    )


def is_changeable(config: NameServerConfig, name: str) -> bool:
    if name in config.locked_settings:
        return False
    return name in _THREADS or name in CHANGEABLE


def doubtful_truths(settings: Mapping[str, str]) -> list[str]:
    """Which settings are read as false, as in Java, although they do not say so."""
    return [
        name
        for name, text in settings.items()
        if name in _SETTINGS and _SETTINGS[name].parse is _parse_truth and not is_plain_truth(text)
    ]


def is_known(name: str) -> bool:
    """Whether Apache has such a setting."""
    return name in _SETTINGS or name in PROMISES or name in HARMLESS or name in TLS_KEYS


def changeable_texts(config: NameServerConfig) -> dict[str, str]:
    """Every setting that may be changed while the server runs."""
    return {name: text for name, text in config_texts(config).items() if name in CHANGEABLE}


def config_texts(config: NameServerConfig) -> dict[str, str]:
    """Every setting that has a value, under Apache's name."""
    values = {name: getattr(config, setting.attribute) for name, setting in _SETTINGS.items()}
    return {name: _text(value) for name, value in values.items() if value is not None}


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


def _parse_place(name: str, text: str) -> Address:
    try:
        return read_place(text)
    except BadAddress:
        raise BadSetting(name, text, "HOST:PORT, or a port for this machine only") from None


def _parse_level(name: str, text: str) -> LogLevel:
    try:
        return LogLevel(text.strip())
    except ValueError:
        names = " or ".join(each.value for each in LogLevel)
        raise BadSetting(name, text, names) from None


def _parse_truth(_name: str, text: str) -> bool:
    return read_truth(text)


def _parse_clear_truth(name: str, text: str) -> bool:
    # Java takes everything else for false. Here that could mean an open door.
    if not is_plain_truth(text):
        raise BadSetting(name, text, "true or false")
    return read_truth(text)


def _parse_names(_name: str, text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(";"))))


def _text(value: object) -> str:
    match value:
        case bool():
            return truth_text(value)
        case LogLevel():
            return value.value
        case Address():
            return str(value)
        case tuple():
            return ";".join(value)
        case _:
            return str(value)


_SETTINGS: Final = {
    "bindAddress": _Setting("host", _parse_text),
    "listenPort": _Setting("port", _parse_port),
    "kvConfigPath": _Setting("kv_config_path", _parse_path),
    "maxConnections": _Setting("connection_count_max", _parse_count),
    "maxConnectionsPerAddress": _Setting("connection_count_max_per_address", _parse_count),
    "maxAcceptsPerSecond": _Setting("accept_rate_max", _parse_count),
    "maxHeldBytes": _Setting("held_size_max", _parse_count),
    "maxRequestsPerConnection": _Setting("deferred_count_max", _parse_count),
    "maxWaitingRequests": _Setting("all_deferred_count_max", _parse_count),
    "maxRoutes": _Setting("route_count_max", _parse_count),
    "maxKvConfigBytes": _Setting("kv_config_size_max", _parse_count),
    "httpListen": _Setting("http_place", _parse_place),
    "logLevel": _Setting("log_level", _parse_level, is_changeable=True),
    "aclEnable": _Setting("access_control", _parse_clear_truth),
    "aclFile": _Setting("accounts_file", _parse_path),
    "rocketmqHome": _Setting("home", _parse_path),
    "aclAdminRequiresTls": _Setting("admin_requires_tls", _parse_clear_truth),
    "serverChannelMaxIdleTimeSeconds": _Setting("idle_timeout_s", _parse_count),
    "scanNotActiveBrokerInterval": _Setting("expiry_period_ms", _parse_count),
    "orderMessageEnable": _Setting("routes_show_order", _parse_truth, is_changeable=True),
    "returnOrderTopicConfigToBroker": _Setting(
        "brokers_learn_order", _parse_truth, is_changeable=True
    ),
    "configBlackList": _Setting("locked_settings", _parse_names),
}
CHANGEABLE: Final = frozenset(name for name, each in _SETTINGS.items() if each.is_changeable)
assert {setting.attribute for setting in _SETTINGS.values()} == {
    *NameServerConfig.__struct_fields__
} - {"tls"}

_ALONE: Final = "set it to false; brokers elect their masters themselves, with replication.etcd"
_USERS: Final = Promise(
    read_truth,
    "users and policies in a database",
    "set it to false, and use aclEnable, with accounts in a file",
)
PROMISES: Final = {
    "authenticationEnabled": _USERS,
    "authorizationEnabled": _USERS,
    "supportActingMaster": Promise(read_truth, "that a slave steps in for its master", _ALONE),
    "enableControllerInNamesrv": Promise(read_truth, "to elect masters", _ALONE),
    "enableTopicList": Promise(is_false, "to keep the names of topics secret", "set it to true"),
    "enableAllTopicList": Promise(is_false, "to keep the names of topics secret", "set it to true"),
    "needWaitForService": Promise(
        read_truth, "to tell no routes before all brokers are there", "set it to false"
    ),
}

# Threads and buffers that we do not have. Tools that set them are not refused.
_THREADS: Final = frozenset(
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
# Settings of Apache 4.9.7 and 5.5.0 that have no effect here and promise nothing by it.
HARMLESS: Final = _THREADS | {
    "clusterTest",
    "configStorePath",
    "deleteTopicWithBrokerRegistration",
    "enableShutdownGracefully",
    "notifyMinBrokerIdChanged",
    "productEnvName",
    "serverNettyWorkerGroupEnable",
    "shutdownWaitTimeSeconds",
    "waitSecondsForService",
}
