"""How an admin is set up: checked when it is made, and never changed."""

from dataclasses import dataclass
from typing import Final, TypedDict

from roquet.client.arguments import check_timeout
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.tls import TlsConfig
from roquet.client.config import Credentials

ADMIN_TIMEOUT_S: Final = 5.0


class AdminOptions(TypedDict, total=False):
    """What an admin takes besides its name server; `AdminConfig` explains."""

    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    """How an `Admin` is set up; its members are its options.

    For example:

        Admin("127.0.0.1:9876", timeout_s=30.0, credentials=Credentials("operator", "its secret"))
    """

    # "host:port", several of them joined by semicolons, or "http://host:port/path" of a server that
    # names them; None takes what the environment has in NAMESRV_ADDR.
    name_server: str | None
    # Names of topics and groups are those inside it.
    namespace: str | None = None
    credentials: Credentials | None = None
    # True is encrypted as `TlsConfig()` says.
    tls: TlsConfig | bool = False
    # How long one server may take to answer.
    timeout_s: float = ADMIN_TIMEOUT_S

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        name_server_source(self.name_server)
        check_timeout("timeout_s", self.timeout_s)
