"""Configuration of clients: checked when it is made, and never changed."""

import ssl
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict

from roquet.client.arguments import bad, check_count, check_timeout
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.errors import BadArgument
from roquet.client.hooks import SendHook
from roquet.client.middleware import Middleware, check_middleware
from roquet.client.names import check_group, check_instance, check_topic
from roquet.client.producer.queue_choice import RETRY_CODES
from roquet.net.tls.contexts import client_context
from roquet.net.tls.settings import TlsFiles
from roquet.protocol.compression import Compression
from roquet.protocol.names import TEMPLATE_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """By default servers need a certificate that the system trusts.

    For example:

        Producer("127.0.0.1:9876", "shop", tls=TlsConfig(ca_file="our-ca.pem", check_host=False))
    """

    # Trusted instead of the authorities of the system.
    ca_file: Path | str | None = None
    # The client's own certificate, for servers that ask for one; the key may be in the same file.
    cert_file: Path | str | None = None
    key_file: Path | str | None = None
    key_password: str | None = field(default=None, repr=False)
    # Certificates of brokers seldom name the addresses that name servers give out.
    check_host: bool = True
    # If False, anyone on the network path can read and change the traffic. Java's default.
    verify: bool = True


def tls_context(tls: TlsConfig | bool) -> ssl.SSLContext | None:
    """None for plain connections. Reads files. Raises BadArgument."""
    if tls is False:
        return None
    config = TlsConfig() if tls is True else tls
    files = TlsFiles(
        certificate=_path(config.cert_file),
        key=_path(config.key_file),
        key_password=config.key_password,
        trusted=_path(config.ca_file),
    )
    try:
        return client_context(files, check_host=config.check_host, verify=config.verify)
    except OSError as error:  # An SSLError is one, too.
        given = (config.ca_file, config.cert_file, config.key_file)
        named = ", ".join(str(each) for each in given if each is not None)
        raise BadArgument(f"`tls`: {named} cannot be used: {error}", "tls") from None


def _path(file: Path | str | None) -> Path | None:
    return None if file is None else Path(file)


TIMEOUT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """Signs every request; access control of the brokers has the same account.

    For example:

        Producer("127.0.0.1:9876", "shop", credentials=Credentials("shop-front", "its secret"))
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


class ProducerOptions(TypedDict, total=False):
    """Options of a producer besides its name server and group; see `ProducerConfig`."""

    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    retry_count: int
    retry_codes: Collection[int]
    retry_not_safe: bool
    retry_unknown: bool
    attempt_timeout_s: float | None
    avoid_slow_brokers: bool
    fast_port: bool
    compress_over: int | None
    compression: Compression
    message_size_max: int
    in_flight_max: int | None
    in_flight_size_max: int
    linger_ms: float | None
    new_topic_queue_count: int
    template_topic: str
    route_interval_s: float
    heartbeat_interval_s: float
    instance_name: str | None
    unit: str | None
    hooks: Sequence[SendHook]
    middleware: Sequence[Middleware]
    trace: bool | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Configuration of a producer; its members are options of `Producer` and `AsyncProducer`.

    Defaults are those of the Java client where it has the setting. Raises BadArgument, and
    BadAddress for the name server.

    For example:

        Producer("127.0.0.1:9876", "shop", retry_count=5, compression=Compression.ZSTD, linger_ms=5)
    """

    # "host:port", several of them joined by semicolons, or "http://host:port/path" of a server that
    # lists them; None takes NAMESRV_ADDR of the environment.
    name_server: str | None
    group: str
    namespace: str | None = None
    credentials: Credentials | None = None
    # True is `TlsConfig()`.
    tls: TlsConfig | bool = False
    # How often a message is retried, within its timeout.
    retry_count: int = 2
    # Response codes that are worth another attempt.
    retry_codes: Collection[int] = RETRY_CODES
    # Also retry when a message is stored, but disk or replica did not confirm it in time. It may be
    # delivered twice then.
    retry_not_safe: bool = False
    # Also retry when no answer came. It may be stored twice then, under the same message id; False
    # raises SendUnknown at once.
    retry_unknown: bool = True
    # The most that one attempt may take of the timeout; None is all of it.
    attempt_timeout_s: float | None = None
    # Avoid brokers that were slow or failed, for the times of the table in `queue_choice.py`.
    avoid_slow_brokers: bool = False
    # Send to the port that brokers reserve for sends: two below the registered one.
    fast_port: bool = False
    # Bodies of this size and more are compressed; None compresses nothing.
    compress_over: int | None = 4096
    compression: Compression = Compression.ZLIB
    message_size_max: int = 4 * 1024 * 1024
    # Messages in flight; one more waits for room as long as others are stored. None is 1,000, and
    # 10,000 with `linger_ms`, where many share a request.
    in_flight_max: int | None = None
    in_flight_size_max: int = 64 * 1024 * 1024
    # How long a message waits for others to share a request with; None sends it at once.
    linger_ms: float | None = None
    # How many queues a topic gets that is created by its first message.
    new_topic_queue_count: int = 4
    # The topic whose brokers and settings such a new topic inherits.
    template_topic: str = TEMPLATE_TOPIC
    route_interval_s: float = 30.0
    heartbeat_interval_s: float = 30.0
    # Part of the client id; None makes a unique one. Clients with the same name share their
    # connections, heartbeats and routes.
    instance_name: str | None = None
    # The unit of the client, as in Apache's unitName: follows the name in the id.
    unit: str | None = None
    # Called around each send.
    hooks: Sequence[SendHook] = ()
    # Surrounds each send; the first one is the outermost.
    middleware: Sequence[Middleware] = ()
    # Send trace records of all messages: to the default trace topic, or to the one that is named.
    trace: bool | str = False

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        check_group(self.group)
        name_server_source(self.name_server)
        for name in _POSITIVE:
            if (value := getattr(self, name)) is not None:
                check_timeout(name, value)
        for name in _COUNTS:
            if (value := getattr(self, name)) is not None:
                check_count(name, value)
        check_count("retry_count", self.retry_count, 0)
        check_codes("retry_codes", self.retry_codes)
        check_topic(self.template_topic)
        if self.compress_over is not None:
            check_count("compress_over", self.compress_over, 0)
        if not isinstance(self.compression, Compression):
            raise bad("compression", "a Compression", self.compression)
        if isinstance(self.trace, str):
            check_topic(self.trace)
        check_hooks(self.hooks, SendHook)
        check_middleware(self.middleware)
        check_instance(self.instance_name, self.unit)

    @property
    def window_count(self) -> int:
        """How many messages may be in flight."""
        if self.in_flight_max is not None:
            return self.in_flight_max
        return _REQUESTS_IN_FLIGHT if self.linger_ms is None else _LINGERING_IN_FLIGHT


# More requests at the same time are not faster, but all of them take longer.
_REQUESTS_IN_FLIGHT: Final = 1_000
_LINGERING_IN_FLIGHT: Final = 10_000
_POSITIVE: Final = ("attempt_timeout_s", "linger_ms", "route_interval_s", "heartbeat_interval_s")
_COUNTS: Final = (
    "message_size_max",
    "in_flight_max",
    "in_flight_size_max",
    "new_topic_queue_count",
)


def check_codes(name: str, codes: Any) -> None:
    """Raises BadArgument."""
    if isinstance(codes, str | bytes) or not isinstance(codes, Collection):
        raise bad(name, "a set of response codes", codes)
    for code in codes:
        check_count(f"each of {name}", code, 0)


def check_hooks(hooks: Any, kind: type) -> None:
    """Raises BadArgument."""
    if not isinstance(hooks, Sequence) or not all(isinstance(each, kind) for each in hooks):
        raise bad("hooks", f"a list of {kind.__name__}s", hooks)
