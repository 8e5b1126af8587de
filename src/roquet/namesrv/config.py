"""Options of a name server, under our names and under Apache's.

Apache's names are those of its properties files and of the requests that show and change
options. An option is in one of three tables: obeyed (and maybe changeable at run time), refused
because it requests an unsupported feature, or skipped as harmless.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from roquet.namesrv.errors import NotChangeable
from roquet.namesrv.route_table import ROUTE_COUNT_MAX
from roquet.net.addresses import read_place
from roquet.net.errors import BadAddress
from roquet.net.limits import DEFAULT_LIMITS, DEFAULT_SERVER_LIMITS, ConnectionLimits, ServerLimits
from roquet.net.tls.settings import TLS_KEYS, TlsSettings, read_tls
from roquet.protocol.host import Address
from roquet.settings.changes import LOG_LEVEL_DEFAULT, LogLevel
from roquet.settings.options import (
    BOOLEAN,
    COUNT,
    NAMES,
    STRICT_BOOLEAN,
    ConfigError,
    Option,
    OptionKind,
    Unsupported,
    by_name,
    format_options,
    is_false,
    number,
    one_of,
    parse_boolean,
    parse_options,
    refuse_unsupported,
    unclear_booleans,
)

PORT_DEFAULT: Final = 9876
# Names and values of the KV config, with their overhead.
KV_CONFIG_SIZE_MAX: Final = 4 << 20


class NameServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    # Every client may change everything, so only this machine can connect by default.
    host: str = "127.0.0.1"
    port: int = PORT_DEFAULT
    kv_config_path: Path = Path("~/namesrv/kvConfig.json")
    idle_timeout_s: int = 120
    # Limits for all peers together; not keys of Apache's.
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
    # Monitoring; not keys of Apache's.
    http_place: Address | None = None
    log_level: LogLevel = LOG_LEVEL_DEFAULT
    # Access control, which Apache's name servers do not have; off by default.
    access_control: bool = False
    accounts_file: Path | None = None
    home: Path | None = None
    # Whether requests of administrators and brokers are refused on plain connections.
    admin_requires_tls: bool = False
    expiry_period_ms: int = 5_000
    # Whether routes contain the fixed queue numbers of ordered topics.
    routes_show_order: bool = False
    # Whether brokers get the ordered topics when they register.
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
    """Obeys the options we know and lists the others.

    Raises ConfigError and UnsupportedOption.
    """
    tls, settings = read_tls(settings)
    refuse_unsupported(UNSUPPORTED, settings)
    values = parse_options(_OPTIONS, settings)
    ignored = [name for name in settings if name not in _OPTIONS]
    return ReadNameServerConfig(NameServerConfig(tls=tls, **values), ignored)


def change_config(config: NameServerConfig, settings: Mapping[str, str]) -> NameServerConfig:
    """All of `settings` or, with an error, nothing. Raises NotChangeable and ConfigError."""
    forbidden = [name for name in settings if not is_changeable(config, name)]
    if forbidden:
        raise NotChangeable(forbidden)
    # In a file such a value means the same as to Apache; a request can be refused.
    for name in doubtful_booleans(settings):
        raise ConfigError(name, settings[name], f"expected {BOOLEAN.expected}")
    return replace(config, **parse_options(_OPTIONS, settings))


def is_changeable(config: NameServerConfig, name: str) -> bool:
    if name in config.locked_settings:
        return False
    return name in _THREADS or name in CHANGEABLE


def doubtful_booleans(settings: Mapping[str, str]) -> list[str]:
    """Options that are read as false, as in Java, although their text is not "false"."""
    return unclear_booleans(_OPTIONS, settings)


def is_known(name: str) -> bool:
    """Whether Apache has such an option."""
    return name in _OPTIONS or name in UNSUPPORTED or name in HARMLESS or name in TLS_KEYS


def changeable_texts(config: NameServerConfig) -> dict[str, str]:
    """Every option that may be changed while the server runs."""
    return {name: text for name, text in config_texts(config).items() if name in CHANGEABLE}


def config_texts(config: NameServerConfig) -> dict[str, str]:
    """Every option that has a value, under Apache's name."""
    return format_options(_OPTIONS, config)


def _parse_listen_address(text: str) -> Address:
    try:
        return read_place(text)
    except BadAddress:
        raise ValueError from None


_ANY_TEXT: Final = OptionKind("a text", str)
_PATH: Final = OptionKind("a file", Path)
_PORT: Final = number(1, 65_535)
_LISTEN_ADDRESS: Final = OptionKind(
    "HOST:PORT, or a port for this machine only", _parse_listen_address
)

_OPTIONS: Final = by_name(
    Option("bindAddress", _ANY_TEXT, "host"),
    Option("listenPort", _PORT, "port"),
    Option("kvConfigPath", _PATH, "kv_config_path"),
    Option("maxConnections", COUNT, "connection_count_max"),
    Option("maxConnectionsPerAddress", COUNT, "connection_count_max_per_address"),
    Option("maxAcceptsPerSecond", COUNT, "accept_rate_max"),
    Option("maxHeldBytes", COUNT, "held_size_max"),
    Option("maxRequestsPerConnection", COUNT, "deferred_count_max"),
    Option("maxWaitingRequests", COUNT, "all_deferred_count_max"),
    Option("maxRoutes", COUNT, "route_count_max"),
    Option("maxKvConfigBytes", COUNT, "kv_config_size_max"),
    Option("httpListen", _LISTEN_ADDRESS, "http_place"),
    Option("logLevel", one_of(LogLevel), "log_level", is_changeable=True),
    Option("aclEnable", STRICT_BOOLEAN, "access_control"),
    Option("aclFile", _PATH, "accounts_file"),
    Option("rocketmqHome", _PATH, "home"),
    Option("aclAdminRequiresTls", STRICT_BOOLEAN, "admin_requires_tls"),
    Option("serverChannelMaxIdleTimeSeconds", COUNT, "idle_timeout_s"),
    Option("scanNotActiveBrokerInterval", COUNT, "expiry_period_ms"),
    Option("orderMessageEnable", BOOLEAN, "routes_show_order", is_changeable=True),
    Option("returnOrderTopicConfigToBroker", BOOLEAN, "brokers_learn_order", is_changeable=True),
    Option("configBlackList", NAMES, "locked_settings"),
)
CHANGEABLE: Final = frozenset(name for name, each in _OPTIONS.items() if each.is_changeable)
assert {option.attribute for option in _OPTIONS.values()} == {
    *NameServerConfig.__struct_fields__
} - {"tls"}

_ALONE: Final = "set it to false; brokers elect their masters themselves, with replication.etcd"
_USERS: Final = Unsupported(
    parse_boolean,
    "users and policies in a database",
    "set it to false, and use aclEnable, with accounts in a file",
)
UNSUPPORTED: Final = {
    "authenticationEnabled": _USERS,
    "authorizationEnabled": _USERS,
    "supportActingMaster": Unsupported(parse_boolean, "a slave that acts as master", _ALONE),
    "enableControllerInNamesrv": Unsupported(parse_boolean, "electing masters", _ALONE),
    "enableTopicList": Unsupported(is_false, "hiding the names of topics", "set it to true"),
    "enableAllTopicList": Unsupported(is_false, "hiding the names of topics", "set it to true"),
    "needWaitForService": Unsupported(
        parse_boolean, "waiting for all brokers before routes are answered", "set it to false"
    ),
}

# Threads and buffers that do not exist here. Tools may set them.
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
# Options of Apache 4.9.7 and 5.5.0 that have no effect here, and are skipped.
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
