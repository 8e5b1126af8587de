"""Options of the connection to a cluster, for every format that talks to brokers."""

from dataclasses import dataclass
from datetime import timedelta

from roquet.client.cluster.name_servers import name_server_source
from roquet.client.config import TlsConfig, tls_context
from roquet.client.errors import BadArgument
from roquet.client.names import check_group
from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import DURATION, SECRET, option
from roquet.settings.options import STRICT_BOOLEAN, TEXT


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    name_server: str = option(
        "nameServer", TEXT, "`host:port` of a name server, several are separated by semicolons"
    )
    namespace: str | None = option(
        "namespace", TEXT, "prefix of the names of topics and groups", None
    )
    access_key: str | None = option("accessKey", TEXT, "access key that signs requests", None)
    secret_key: str | None = option("secretKey", SECRET, "secret key that signs requests", None)
    security_token: str | None = option(
        "securityToken", SECRET, "security token of temporary keys", None
    )
    tls: bool = option("tls", STRICT_BOOLEAN, "connect with TLS", default=False)
    tls_ca_file: str | None = option(
        "tlsCaFile",
        TEXT,
        "CA certificates to verify servers with; default: the system's",
        None,
    )
    request_timeout: timedelta = option(
        "requestTimeout",
        DURATION,
        "timeout of one request to a server",
        timedelta(seconds=5),
        shown="5s",
    )
    retry_timeout: timedelta = option(
        "retryTimeout",
        DURATION,
        "how long requests to an unreachable broker are retried before the query fails",
        timedelta(minutes=1),
        shown="1m",
    )

    def __post_init__(self) -> None:
        """Raises BadOption."""
        if (self.access_key is None) != (self.secret_key is None):
            raise BadOption("accessKey", "give both 'accessKey' and 'secretKey', or neither")
        if self.tls_ca_file is not None and not self.tls:
            raise BadOption("tlsCaFile", "requires tls=true")
        try:
            name_server_source(self.name_server)
        except BadArgument as error:
            raise BadOption("nameServer", str(error)) from None
        if self.tls_ca_file is not None:
            try:
                tls_context(TlsConfig(ca_file=self.tls_ca_file))
            except BadArgument as error:
                # Its argument is part of the text, and no option of the format.
                reason = str(error).removeprefix(f"`{error.argument}`: ")
                raise BadOption("tlsCaFile", reason) from None


def check_group_option(name: str, group: str | None) -> None:
    """Raises BadOption for a value that is no name of a group."""
    try:
        if group is not None:
            check_group(group)
    except BadArgument as error:
        raise BadOption(name, str(error)) from None
