"""Arguments of jobs that talk to brokers: where they are, who asks, and whether it is encrypted.

What is not given is what the environment says, and then the file of operators' commands.
A secret is neither an argument, which everybody on the machine could read, nor part of a command
that is shown to be called again: it is in a file or in the environment.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from roquet.cli.operating.access import (
    ACCESS_KEY_VARIABLE,
    ADDRESS_DEFAULT,
    SECRET_KEY_VARIABLE,
    name_server_of,
)
from roquet.cli.operating.config_file import ConfigFile, TlsTable, config_path, read_config_file
from roquet.cli.spark.arguments import options_of
from roquet.client.cluster.name_servers import ENVIRONMENT_NAME
from roquet.pipeline.errors import BadOption

SECURITY_TOKEN_VARIABLE: Final = "ROQUET_SECURITY_TOKEN"  # noqa: S105


def define_brokers(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--name-server",
        metavar="HOST:PORT",
        help="A name server; several are joined by semicolons. If left out,"
        f" ${ENVIRONMENT_NAME}, the file ~/.config/roquet.toml, or {ADDRESS_DEFAULT}.",
    )
    parser.add_argument(
        "--access-key",
        metavar="KEY",
        help=f"Who signs requests; ${ACCESS_KEY_VARIABLE} if left out, and nobody without it.",
    )
    parser.add_argument(
        "--secret-key-file",
        type=Path,
        metavar="FILE",
        help="Has the secret that requests are signed with, and nothing else;"
        f" ${SECRET_KEY_VARIABLE} is the secret if left out.",
    )
    parser.add_argument("--tls", action="store_true", help="Encrypt connections.")
    parser.add_argument(
        "--tls-ca-file",
        type=Path,
        metavar="FILE",
        help="Certificates that servers are checked against; the system's if left out.",
    )


def broker_options(given: Namespace) -> dict[str, str]:
    """Options of format `rocketmq` by which brokers are reached.

    Raises BadOption, BadConfigFile and OSError.
    """
    file = read_config_file(os.environ)
    if given.tls_ca_file is not None and not given.tls:
        raise BadOption("tls-ca-file", "it needs --tls")
    return options_of(
        nameServer=name_server_of(given.name_server, os.environ, file)[0],
        **_signing(given, file),
        **_encryption(given, file.tls),
    )


def _signing(given: Namespace, file: ConfigFile) -> dict[str, str | None]:
    access_key = given.access_key or os.environ.get(ACCESS_KEY_VARIABLE) or None
    secret_key = _secret_key(given.secret_key_file)
    token = os.environ.get(SECURITY_TOKEN_VARIABLE) or None
    kept = file.credentials
    if kept is not None and not (access_key or secret_key or token):
        access_key, secret_key, token = kept.access_key, kept.secret_key, kept.security_token
    if access_key is None and (secret_key or token):
        raise BadOption(
            "access-key", f"a secret is there: give this, too, or set {ACCESS_KEY_VARIABLE}"
        )
    if access_key is not None and secret_key is None:
        raise BadOption(
            "access-key", f"it needs --secret-key-file, or {SECRET_KEY_VARIABLE} to be set"
        )
    return {"accessKey": access_key, "secretKey": secret_key, "securityToken": token}


def _encryption(given: Namespace, kept: TlsTable | None) -> dict[str, str | Path | None]:
    if given.tls:
        # Tasks run in directories of their own.
        return {"tls": "true", "tlsCaFile": given.tls_ca_file and given.tls_ca_file.absolute()}
    if kept is None:
        return {}
    if kept != TlsTable(ca_file=kept.ca_file):
        raise BadOption(
            "tls",
            f"of [tls] in {config_path(os.environ)}, jobs know only ca_file; give --tls here",
        )
    return {"tls": "true", "tlsCaFile": kept.ca_file and Path(kept.ca_file).absolute()}


def _secret_key(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(SECRET_KEY_VARIABLE) or None
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        secret = ""
    if not secret or "\n" in secret:
        raise BadOption("secret-key-file", f"{file} has no secret in it: one line of text")
    return secret
