"""TLS options, under Apache's names.

Apache reads them from system properties of Java and from a file `tls.properties`; here they may
also stand among the other options of a server.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from roquet.settings.options import (
    STRICT_BOOLEAN,
    TEXT,
    ConfigError,
    Option,
    OptionKind,
    by_name,
    one_of,
    parse_options,
)


class TlsMode(Enum):
    """Which connections a server accepts: plain, encrypted, or both."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientCertificates(Enum):
    """Whether clients have to present one."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "require"


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """PEM files of one side: its certificate and key, and the authorities it trusts."""

    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = None
    trusted: Path | None = None

    def __repr__(self) -> str:
        return f"certificate {self.certificate}, key {self.key}, trusted {self.trusted}"


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The comment after a member is Apache's name for it."""

    mode: TlsMode = TlsMode.PERMISSIVE  # tls.server.mode
    # tls.server.certPath, tls.server.keyPath, tls.server.keyPassword, tls.server.trustCertPath
    server: TlsFiles = TlsFiles()
    client_certificates: ClientCertificates = ClientCertificates.NONE  # tls.server.need.client.auth
    check_clients: bool = False  # tls.server.authClient
    # Apache's default is true even with certificates configured; here they are used.
    is_test: bool | None = None  # tls.test.mode.enable
    encrypt_calls: bool = False  # tls.enable
    # tls.client.certPath, tls.client.keyPath, tls.client.keyPassword, tls.client.trustCertPath
    client: TlsFiles = TlsFiles()
    check_servers: bool = False  # tls.client.authServer

    @property
    def has_files(self) -> bool:
        """Whether there are files to reload."""
        uses_own = self.mode is not TlsMode.DISABLED and not self.is_self_signed
        return uses_own or (self.encrypt_calls and self.client != TlsFiles())

    @property
    def is_self_signed(self) -> bool:
        """Whether the server generates its certificate, which clients cannot verify."""
        return self.server.certificate is None if self.is_test is None else self.is_test


class ReadTls(NamedTuple):
    settings: TlsSettings
    others: dict[str, str]  # options that are not about TLS


def read_tls(settings: Mapping[str, str]) -> ReadTls:
    """An empty text is the default. Raises ConfigError."""
    given = {key: text for key, text in settings.items() if text.strip()}
    values: dict[str, dict[str, Any]] = {"": {}, "server": {}, "client": {}}
    for attribute, value in parse_options(_OPTIONS, given).items():
        side, _, name = attribute.rpartition(".")
        values[side][name] = value
    tls = TlsSettings(
        server=TlsFiles(**values["server"]), client=TlsFiles(**values["client"]), **values[""]
    )
    _check(tls)
    others = {key: text for key, text in settings.items() if key not in TLS_KEYS}
    return ReadTls(tls, others)


def _check(tls: TlsSettings) -> None:
    wants_any = tls.client_certificates is ClientCertificates.REQUIRED and not tls.check_clients
    if wants_any and tls.server.trusted is None:
        raise ConfigError(
            "tls.server.need.client.auth",
            tls.client_certificates.value,
            "needs tls.server.trustCertPath: a client certificate that is not verified protects "
            "nothing",
        )


# The file where Apache reads more of them, and the option that names another.
FILE_DEFAULT: Final = Path("/etc/rocketmq/tls.properties")
FILE_KEY: Final = "tls.config.file"

_PATH: Final = OptionKind("a file", Path)
_OPTIONS: Final = by_name(
    Option("tls.server.mode", one_of(TlsMode, ignore_case=True), "mode"),
    Option("tls.server.certPath", _PATH, "server.certificate"),
    Option("tls.server.keyPath", _PATH, "server.key"),
    Option("tls.server.keyPassword", TEXT, "server.key_password"),
    Option("tls.server.trustCertPath", _PATH, "server.trusted"),
    Option(
        "tls.server.need.client.auth",
        one_of(ClientCertificates, ignore_case=True),
        "client_certificates",
    ),
    Option("tls.server.authClient", STRICT_BOOLEAN, "check_clients"),
    Option("tls.test.mode.enable", STRICT_BOOLEAN, "is_test"),
    # The same in the file of a broker; `tls.enable` takes precedence.
    Option("useTLS", STRICT_BOOLEAN, "encrypt_calls"),
    Option("tls.enable", STRICT_BOOLEAN, "encrypt_calls"),
    Option("tls.client.certPath", _PATH, "client.certificate"),
    Option("tls.client.keyPath", _PATH, "client.key"),
    Option("tls.client.keyPassword", TEXT, "client.key_password"),
    Option("tls.client.trustCertPath", _PATH, "client.trusted"),
    Option("tls.client.authServer", STRICT_BOOLEAN, "check_servers"),
)
TLS_KEYS: Final = frozenset({*_OPTIONS, FILE_KEY})
