"""How a topic reader is set up: checked when it is made, and never changed."""

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
    """What a topic reader takes besides its name server; `TopicReaderConfig` explains."""

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
    """How a topic reader is set up; its members are its options.

    For example:

        TopicReader("127.0.0.1:9876", timeout_s=10.0, patience_s=120.0)
    """

    # "host:port", several of them joined by semicolons, or "http://host:port/path" of a server that
    # names them; None takes what the environment has in NAMESRV_ADDR.
    name_server: str | None
    # Who pulls, for access control and statistics. It is not joined, and its offsets are not moved.
    group: str = TOOLS_GROUP
    # Names of topics and groups are those inside it.
    namespace: str | None = None
    credentials: Credentials | None = None
    # True is encrypted as `TlsConfig()` says.
    tls: TlsConfig | bool = False
    # How long one server may take to answer a question.
    timeout_s: float = 5.0
    # How long a broker may be away, or too busy, while records are read.
    patience_s: float = 60.0
    # Pulls of one `records` that are on their way at the same time.
    in_flight: int = 32
    # Records of one `records` that may be here, or on their way, before they are asked for.
    ahead_size: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        name_server_source(self.name_server)
        check_group(self.group)
        for name in _POSITIVE:
            if (value := getattr(self, name)) <= 0:
                raise BadArgument(f"`{name}` has to be more than 0, not {value}")


_POSITIVE: Final = ("timeout_s", "patience_s", "in_flight", "ahead_size")
