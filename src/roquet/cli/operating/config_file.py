"""The file in which an operator keeps what every command needs, so that nobody types it again.

    name_server = "10.0.0.1:9876;10.0.0.2:9876"
    namespace = "shop"
    timeout_s = 5.0

    [credentials]
    access_key = "me"
    secret_key = "..."

    [tls]
    ca_file = "/etc/ssl/our-ca.pem"

It is `~/.config/roquet.toml`, unless XDG_CONFIG_HOME or ROQUET_CONFIG say otherwise.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from roquet.errors import RoquetError

PATH_VARIABLE: Final = "ROQUET_CONFIG"
_FILE_NAME: Final = "roquet.toml"


class BadConfigFile(RoquetError):
    """The text says which file, and what about it."""


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
    # Without the table, nothing is encrypted.
    tls: TlsTable | None = None


NO_FILE: Final = ConfigFile()


def config_path(environment: Mapping[str, str]) -> Path:
    if named := environment.get(PATH_VARIABLE):
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME")
    directory = Path(home) if home else Path(environment.get("HOME", "~")).expanduser() / ".config"
    return directory / _FILE_NAME


def read_config_file(environment: Mapping[str, str]) -> ConfigFile:
    """Nothing if there is none, unless it was named. Raises BadConfigFile."""
    path = config_path(environment)
    try:
        members = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(members, ConfigFile)
    except FileNotFoundError:
        if PATH_VARIABLE in environment:
            raise BadConfigFile(f"{path} is not there, but {PATH_VARIABLE} names it") from None
        return NO_FILE
    except OSError as error:
        raise BadConfigFile(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise BadConfigFile(f"{path}: {error}") from None
