"""Settings of a topic reader: checked when it is made, and immutable."""

from dataclasses import dataclass
from typing import Final, TypedDict

from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.tls import TlsConfig
from roquet.client.config import Credentials
from roquet.client.errors import BadArgument
from roquet.client.names import check_group

# Every broker has this group, for tools that read messages and keep no offsets.
TOOLS_GROUP: Final = "TOOLS_CONSUMER"


class TopicReaderOptions(TypedDict, total=False):
    """Options of a topic reader besides its name server; `TopicReaderConfig` explains them."""

    group: str
    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    timeout_s: float
    patience_s: float
    in_flight: int
    ahead_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReaderConfig:
    """Settings of a topic reader; its members are its options.

    For example:

        TopicReader("127.0.0.1:9876", timeout_s=10.0, patience_s=120.0)
    """

    # "host:port", several of them joined by semicolons, or "http://host:port/path" of a server that
    # lists them; None takes NAMESRV_ADDR of the environment.
    name_server: str | None
    # For access control and statistics. The reader does not join it, nor move its offsets.
    group: str = TOOLS_GROUP
    # Names of topics and groups are relative to it.
    namespace: str | None = None
    credentials: Credentials | None = None
    # True encrypts with the defaults of `TlsConfig`.
    tls: TlsConfig | bool = False
    # How long a server may take to answer a request.
    timeout_s: float = 5.0
    # How long a broker may be down or overloaded while records are read.
    patience_s: float = 60.0
    # Concurrent pulls of one `records` call.
    in_flight: int = 32
    # Bytes that one `records` call may have buffered or in flight.
    ahead_size: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        name_server_source(self.name_server)
        check_group(self.group)
        for name in _POSITIVE:
            if (value := getattr(self, name)) <= 0:
                raise BadArgument(f"`{name}` must be more than 0, not {value}")


_POSITIVE: Final = ("timeout_s", "patience_s", "in_flight", "ahead_size")
