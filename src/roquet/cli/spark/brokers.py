"""Arguments of jobs that talk to brokers: where they are, who asks, and whether it is encrypted.

A secret is neither an argument, which everybody on the machine could read, nor part of a command
that is shown to be called again: it is in a file or in the environment.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from roquet.cli.spark.arguments import options_of
from roquet.pipeline.errors import BadOption

ACCESS_KEY_VARIABLE: Final = "ROQUET_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "ROQUET_SECRET_KEY"  # noqa: S105  The name of one.
SECURITY_TOKEN_VARIABLE: Final = "ROQUET_SECURITY_TOKEN"  # noqa: S105


def define_brokers(parser: ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "-n",
        "--name-server",
        required=required,
        metavar="HOST:PORT",
        help="A name server; several are joined by semicolons.",
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
    """Options of format `rocketmq` by which brokers are reached. Raises BadOption and OSError."""
    access_key = given.access_key or os.environ.get(ACCESS_KEY_VARIABLE) or None
    secret_key = _secret_key(given.secret_key_file)
    token = os.environ.get(SECURITY_TOKEN_VARIABLE) or None
    if access_key is None and (secret_key or token):
        raise BadOption(
            "access-key", f"a secret is there: give this, too, or set {ACCESS_KEY_VARIABLE}"
        )
    if access_key is not None and secret_key is None:
        raise BadOption(
            "access-key", f"it needs --secret-key-file, or {SECRET_KEY_VARIABLE} to be set"
        )
    if given.tls_ca_file is not None and not given.tls:
        raise BadOption("tls-ca-file", "it needs --tls")
    return options_of(
        nameServer=given.name_server,
        accessKey=access_key,
        secretKey=secret_key,
        securityToken=token,
        tls="true" if given.tls else None,
        # Tasks run in directories of their own.
        tlsCaFile=given.tls_ca_file and given.tls_ca_file.absolute(),
    )


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
