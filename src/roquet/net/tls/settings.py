"""Who may listen in: the settings of encrypted connections, under Apache's names.

Apache reads them from properties of the Java machine and from a file `tls.properties`; here they
may stand among the other settings of a server, too.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from roquet.net.errors import BadTlsSetting

E = TypeVar("E", bound=Enum)


class TlsMode(Enum):
    """What a server does with peers that encrypt, and with those that do not."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientCertificates(Enum):
    """Whether clients have to show one."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "require"


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """PEM files of one side: who it is, and whom it trusts."""

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
    # Apache's default is true, whatever certificates are named; here they are used.
    is_test: bool | None = None  # tls.test.mode.enable
    encrypt_calls: bool = False  # tls.enable
    # tls.client.certPath, tls.client.keyPath, tls.client.keyPassword, tls.client.trustCertPath
    client: TlsFiles = TlsFiles()
    check_servers: bool = False  # tls.client.authServer

    @property
    def has_files(self) -> bool:
        """Whether there is anything to be read again."""
        is_shown = self.mode is not TlsMode.DISABLED and not self.is_self_signed
        return is_shown or (self.encrypt_calls and self.client != TlsFiles())

    @property
    def is_self_signed(self) -> bool:
        """Whether the server makes a certificate by itself, which nobody can check."""
        return self.server.certificate is None if self.is_test is None else self.is_test


class ReadTls(NamedTuple):
    settings: TlsSettings
    others: dict[str, str]  # what is not about TLS


def read_tls(settings: Mapping[str, str]) -> ReadTls:
    """Raises BadTlsSetting."""
    values: dict[str, dict[str, Any]] = {"": {}, "server": {}, "client": {}}
    for key, setting in _SETTINGS.items():
        text = settings.get(key, "").strip()
        if text:
            values[setting.side][setting.attribute] = setting.read(key, text)
    tls = TlsSettings(
        server=TlsFiles(**values["server"]), client=TlsFiles(**values["client"]), **values[""]
    )
    _check(tls)
    others = {key: text for key, text in settings.items() if key not in TLS_KEYS}
    return ReadTls(tls, others)


def _check(tls: TlsSettings) -> None:
    wants_any = tls.client_certificates is ClientCertificates.REQUIRED and not tls.check_clients
    if wants_any and tls.server.trusted is None:
        raise BadTlsSetting(
            "tls.server.need.client.auth",
            tls.client_certificates.value,
            "name those who are let in, with tls.server.trustCertPath: a certificate that nobody "
            "checks keeps nobody out",
        )


class _Setting(msgspec.Struct, frozen=True):
    side: str
    attribute: str
    read: Callable[[str, str], Any]


def _text(_key: str, text: str) -> str:
    return text


def _path(_key: str, text: str) -> Path:
    return Path(text)


def _truth(key: str, text: str) -> bool:
    # Java takes everything else for false. Here that could mean an open door.
    if text.lower() not in ("true", "false"):
        raise BadTlsSetting(key, text, "expected true or false")
    return text.lower() == "true"


def _one_of(choices: type[E]) -> Callable[[str, str], E]:
    def read(key: str, text: str) -> E:
        try:
            return choices(text.lower())
        except ValueError:
            expected = " or ".join(choice.value for choice in choices)
            raise BadTlsSetting(key, text, f"expected {expected}") from None

    return read


# Where Apache looks for more of them, and the setting that says where else.
FILE_DEFAULT: Final = Path("/etc/rocketmq/tls.properties")
FILE_KEY: Final = "tls.config.file"

_SETTINGS: Final = {
    "tls.server.mode": _Setting("", "mode", _one_of(TlsMode)),
    "tls.server.certPath": _Setting("server", "certificate", _path),
    "tls.server.keyPath": _Setting("server", "key", _path),
    "tls.server.keyPassword": _Setting("server", "key_password", _text),
    "tls.server.trustCertPath": _Setting("server", "trusted", _path),
    "tls.server.need.client.auth": _Setting("", "client_certificates", _one_of(ClientCertificates)),
    "tls.server.authClient": _Setting("", "check_clients", _truth),
    "tls.test.mode.enable": _Setting("", "is_test", _truth),
    # The same in a broker's own file; `tls.enable` counts for more.
    "useTLS": _Setting("", "encrypt_calls", _truth),
    "tls.enable": _Setting("", "encrypt_calls", _truth),
    "tls.client.certPath": _Setting("client", "certificate", _path),
    "tls.client.keyPath": _Setting("client", "key", _path),
    "tls.client.keyPassword": _Setting("client", "key_password", _text),
    "tls.client.trustCertPath": _Setting("client", "trusted", _path),
    "tls.client.authServer": _Setting("", "check_servers", _truth),
}
TLS_KEYS: Final = frozenset({*_SETTINGS, FILE_KEY})
