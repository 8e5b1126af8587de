"""Options that servers share: TLS, access control, HTTP pages, the format of the log.

Besides: Apache's `tls.properties`, certificates reloaded at SIGHUP, warnings about settings.
"""

import logging
import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from roquet.cli.serving.log_lines import LogForm
from roquet.net.addresses import read_place
from roquet.net.errors import BadAddress, TlsNotUsable
from roquet.net.loop import on_hangup
from roquet.net.tls.settings import FILE_DEFAULT, FILE_KEY, TlsMode
from roquet.protocol.host import Address
from roquet.protocol.properties_text import read_properties_text

log = logging.getLogger(__name__)

# What the operator says about a server itself, and not about how it is encrypted.
_NOT_IN_THE_FILE: Final = ("tls.server.mode", "tls.enable", FILE_KEY)
_HOME_VARIABLE: Final = "ROCKETMQ_HOME"
_HOME_KEY: Final = "rocketmqHome"


def define_tls(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--tls",
        choices=[mode.value for mode in TlsMode],
        help="Whether peers have to encrypt (enforcing), may (permissive) or must not; they may, if"
        " this is left out.",
    )
    parser.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="The certificate of the server, and those behind it (PEM). Without it, it makes one"
        " that nobody can check.",
    )
    parser.add_argument(
        "--tls-key",
        type=Path,
        metavar="FILE",
        help="The key of the certificate (PEM), if it is not in the same file.",
    )
    parser.add_argument(
        "--tls-client-ca",
        type=Path,
        metavar="FILE",
        help="Whoever encrypts has to show a certificate that one of these (PEM) has signed.",
    )


def tls_given(given: Namespace) -> dict[str, str]:
    """What was said on the command line, under Apache's names."""
    settings: dict[str, str] = {}
    if given.tls is not None:
        settings["tls.server.mode"] = given.tls
    if given.tls_cert is not None:
        settings |= {"tls.server.certPath": str(given.tls_cert), "tls.test.mode.enable": "false"}
    if given.tls_key is not None:
        settings["tls.server.keyPath"] = str(given.tls_key)
    if given.tls_client_ca is not None:
        settings |= {
            "tls.server.trustCertPath": str(given.tls_client_ca),
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
        }
    return settings


def tls_from_file(settings: Mapping[str, str]) -> dict[str, str]:
    """What `tls.properties` says, which counts for more than `settings`, as in Apache.

    Raises OSError for a file that was named and is not there, and BadBody.
    """
    named = settings.get(FILE_KEY, "").strip()
    path = Path(named) if named else FILE_DEFAULT
    if not named and not path.exists():
        return {}
    found = read_properties_text(path.read_bytes())
    return {key: text for key, text in found.items() if key not in _NOT_IN_THE_FILE}


class Reloading(Protocol):
    def reload(self) -> None:
        """Raises TlsNotUsable."""


@contextmanager
def reloads_on_hangup(*, has_files: bool) -> Iterator[list[Reloading]]:
    """Reads the certificates of those who are put on the list again at SIGHUP.

    It begins before there is a server, or an early signal would end it. Without any files a closed
    terminal does end it, as it does other programs.
    """
    servers: list[Reloading] = []
    if not has_files:
        yield servers
        return

    def reload() -> None:
        for tls in servers:
            _reload(tls)

    with on_hangup(reload):
        yield servers


def _reload(tls: Reloading) -> None:
    try:
        tls.reload()
    except TlsNotUsable as error:
        log.error("going on with the certificates of before: %s", error)  # noqa: TRY400  It says it all.
    else:
        log.info("read certificates again")


def define_access(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--acl-file",
        type=Path,
        metavar="FILE",
        help="Lets in only the accounts of this file, an Apache plain_acl.yml; `roquet account add`"
        " makes one.",
    )


def access_given(given: Namespace) -> dict[str, str]:
    """What was said on the command line, under the names of settings."""
    if given.acl_file is None:
        return {}
    return {"aclEnable": "true", "aclFile": str(given.acl_file)}


def home_from_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Where Apache's servers are installed, unless the settings say it."""
    home = os.environ.get(_HOME_VARIABLE)
    return {_HOME_KEY: home} if home and _HOME_KEY not in settings else {}


def define_monitoring(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        type=_place,
        metavar="HOST:PORT",
        help="Where /metrics, /health and /ready are; nowhere if left out. A port alone is for this"
        " machine only, 0 takes any.",
    )
    parser.add_argument(
        "--log",
        type=LogForm,
        choices=list(LogForm),
        default=LogForm.TEXT,
        help="Lines of the log for people (text), or one JSON object in each (json).",
    )


def http_given(given: Namespace) -> dict[str, str]:
    """What was said on the command line, under the names of settings."""
    return {} if given.http is None else {"httpListen": str(given.http)}


def _place(text: str) -> Address:
    try:
        return read_place(text)
    except BadAddress:
        raise ArgumentTypeError(f"{text!r} is neither HOST:PORT nor a port") from None


def warn_of_settings(
    path: Path, ignored: Sequence[str], is_known: Callable[[str], bool], doubtful: Sequence[str]
) -> None:
    """`ignored` have no effect, `doubtful` are taken for false."""
    if ignored:
        known = [key for key in ignored if is_known(key)]
        unknown = [key for key in ignored if not is_known(key)]
        parts = [
            *([f"settings without effect: {', '.join(known)}"] if known else []),
            *([f"unknown, perhaps mistyped: {', '.join(unknown)}"] if unknown else []),
        ]
        log.warning("%s: %s", path, "; ".join(parts))
    if doubtful:
        log.warning("%s: taken for false, as Java does: %s", path, ", ".join(doubtful))
