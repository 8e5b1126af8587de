"""Encrypted connections: how a client verifies servers, and its own certificate."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from roquet.client.errors import BadArgument
from roquet.net.tls.contexts import client_context
from roquet.net.tls.settings import TlsFiles


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
        raise BadArgument(f"`tls` {config} cannot be used: {error}") from None


def _path(file: Path | str | None) -> Path | None:
    return None if file is None else Path(file)
