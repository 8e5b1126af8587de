"""Options by which a cluster is reached: those of every format that talks to brokers."""

from dataclasses import dataclass
from datetime import timedelta

from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import option
from roquet.pipeline.options.kinds import duration, flag, text


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    name_server: str = option(
        "nameServer", text, "`host:port` of a name server, several of them joined by semicolons"
    )
    namespace: str | None = option(
        "namespace", text, "goes in front of the names of topics and groups", None
    )
    access_key: str | None = option("accessKey", text, "who signs requests", None)
    secret_key: str | None = option(
        "secretKey", text, "what they are signed with", None, is_secret=True
    )
    security_token: str | None = option(
        "securityToken", text, "goes along with both, where keys are lent", None, is_secret=True
    )
    tls: bool = option("tls", flag, "encrypted connections", default=False)
    tls_ca_file: str | None = option(
        "tlsCaFile",
        text,
        "certificates that servers are checked against; the system's if left out",
        None,
    )
    request_timeout: timedelta = option(
        "requestTimeout",
        duration,
        "how long one question to a server may take",
        timedelta(seconds=5),
        shown="5s",
    )
    retry_timeout: timedelta = option(
        "retryTimeout",
        duration,
        "how long a broker that does not answer is asked again before the query fails",
        timedelta(minutes=1),
        shown="1m",
    )

    def __post_init__(self) -> None:
        """Raises BadOption."""
        if (self.access_key is None) != (self.secret_key is None):
            raise BadOption("accessKey", "it goes together with 'secretKey': give both or neither")
        if self.tls_ca_file is not None and not self.tls:
            raise BadOption("tlsCaFile", "it needs 'tls' to be true")
