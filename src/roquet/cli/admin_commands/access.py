"""How a cluster is reached: from options, the environment and a file, in this order.

Secrets are not among the options: every user of a machine can read the command lines of others.
The file is `~/.config/roquet.toml`, unless XDG_CONFIG_HOME or ROQUET_CONFIG name another:

    name_server = "10.0.0.1:9876;10.0.0.2:9876"
    namespace = "shop"
    timeout_s = 5.0

    [credentials]
    access_key = "me"
    secret_key = "..."

    [tls]
    ca_file = "/etc/ssl/our-ca.pem"
"""

import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from roquet.client.admin.remedies import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from roquet.client.admin.servers import ADMIN_TIMEOUT_S, AdminOptions
from roquet.client.cluster.name_servers import ENVIRONMENT_NAME
from roquet.client.config import Credentials, TlsConfig
from roquet.errors import RoquetError

SECURITY_TOKEN_VARIABLE: Final = "ROQUET_SECURITY_TOKEN"  # noqa: S105  The name of one.
# Where `roquet up` puts it.
ADDRESS_DEFAULT: Final = "127.0.0.1:9876"
PATH_VARIABLE: Final = "ROQUET_CONFIG"
_FILE_NAME: Final = "roquet.toml"


class BadConfigFile(RoquetError):
    """The text names the file and the error."""


class CredentialsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    access_key: str
    secret_key: str
    security_token: str | None = None


class TlsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The members of `TlsConfig`."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = None
    check_host: bool = True
    verify: bool = True


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name_server: str | None = None
    namespace: str | None = None
    timeout_s: float | None = None
    credentials: CredentialsTable | None = None
    # Without the table, TLS is off.
    tls: TlsTable | None = None


NO_FILE: Final = ConfigFile()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    name_server: str
    # Where it was set: what to change if it is wrong.
    name_server_from: str
    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    timeout_s: float

    def options(self) -> AdminOptions:
        return AdminOptions(
            namespace=self.namespace,
            credentials=self.credentials,
            tls=self.tls,
            timeout_s=self.timeout_s,
        )


def define_access(parser: ArgumentParser) -> None:
    options = parser.add_argument_group("connection")
    options.add_argument(
        "-n",
        "--name-server",
        metavar="ADDRESSES",
        help="host:port of name servers, separated by ';', or http://... of a page that lists them."
        f" Default: {ENVIRONMENT_NAME}, the file ~/.config/roquet.toml, or {ADDRESS_DEFAULT}.",
    )
    options.add_argument("--namespace", help="Namespace of topics and groups.")
    options.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="Timeout of a request."
    )
    options.add_argument("--tls", action="store_true", help="Use TLS.")
    options.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="CA certificates to verify servers with (PEM); default: the system's.",
    )
    options.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="Client certificate (PEM), if servers require one.",
    )
    options.add_argument(
        "--tls-key", type=Path, metavar="FILE", help="Private key of the client certificate (PEM)."
    )
    options.add_argument(
        "--tls-any-host",
        action="store_true",
        help="Do not verify that a certificate names the host; brokers' certificates seldom do.",
    )


def access_of(given: Namespace, environment: Mapping[str, str]) -> Access:
    """Raises BadConfigFile."""
    file = read_config_file(environment)
    name_server, origin = name_server_of(given.name_server, environment, file)
    return Access(
        name_server=name_server,
        name_server_from=origin,
        namespace=given.namespace or file.namespace,
        credentials=_credentials(environment, file),
        tls=_tls(given, file.tls),
        timeout_s=given.timeout or file.timeout_s or ADMIN_TIMEOUT_S,
    )


def name_server_of(
    given: str | None, environment: Mapping[str, str], file: ConfigFile
) -> tuple[str, str]:
    """Its address, and where it was set."""
    if given:
        return given, "-n"
    if named := environment.get(ENVIRONMENT_NAME):
        return named, ENVIRONMENT_NAME
    if file.name_server:
        return file.name_server, str(config_path(environment))
    return ADDRESS_DEFAULT, "default"


def _credentials(environment: Mapping[str, str], file: ConfigFile) -> Credentials | None:
    access_key = environment.get(ACCESS_KEY_VARIABLE)
    secret_key = environment.get(SECRET_KEY_VARIABLE)
    if access_key and secret_key:
        token = environment.get(SECURITY_TOKEN_VARIABLE) or None
        return Credentials(access_key, secret_key, token)
    table = file.credentials
    if table is None:
        return None
    return Credentials(table.access_key, table.secret_key, table.security_token)


def _tls(given: Namespace, table: TlsTable | None) -> TlsConfig | bool:
    options = {
        "ca_file": given.tls_ca,
        "cert_file": given.tls_cert,
        "key_file": given.tls_key,
        "check_host": False if given.tls_any_host else None,
    }
    chosen = {name: value for name, value in options.items() if value is not None}
    if not given.tls and not chosen and table is None:
        return False
    return TlsConfig(**(msgspec.structs.asdict(table or TlsTable()) | chosen))


def _seconds(text: str) -> float:
    """Raises ValueError."""
    seconds = float(text)
    if not seconds > 0:
        raise ValueError(text)
    return seconds


def config_path(environment: Mapping[str, str]) -> Path:
    if named := environment.get(PATH_VARIABLE):
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME")
    directory = Path(home) if home else Path(environment.get("HOME", "~")).expanduser() / ".config"
    return directory / _FILE_NAME


def read_config_file(environment: Mapping[str, str]) -> ConfigFile:
    """Empty if there is no file, unless one was named. Raises BadConfigFile."""
    path = config_path(environment)
    try:
        members = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(members, ConfigFile)
    except FileNotFoundError:
        if PATH_VARIABLE in environment:
            raise BadConfigFile(f"{path}, set by {PATH_VARIABLE}, does not exist") from None
        return NO_FILE
    except OSError as error:
        raise BadConfigFile(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise BadConfigFile(f"{path}: {error}") from None
