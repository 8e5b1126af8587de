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

# Settings of the server itself, which the TLS file cannot change.
_NOT_IN_THE_FILE: Final = ("tls.server.mode", "tls.enable", FILE_KEY)
_HOME_VARIABLE: Final = "ROCKETMQ_HOME"
_HOME_KEY: Final = "rocketmqHome"


def define_tls(parser: ArgumentParser, option: str = "--tls") -> None:
    """`option` is how their names start: a server that is also a client has others for that."""
    parser.add_argument(
        option,
        dest="server_tls",
        choices=[mode.value for mode in TlsMode],
        help="Whether TLS is required (enforcing), accepted (permissive) or off (disabled)."
        " Default: permissive.",
    )
    parser.add_argument(
        f"{option}-cert",
        dest="server_tls_cert",
        type=Path,
        metavar="FILE",
        help="Certificate of the server with its chain (PEM). If omitted, a self-signed one is"
        " generated, which clients cannot verify.",
    )
    parser.add_argument(
        f"{option}-key",
        dest="server_tls_key",
        type=Path,
        metavar="FILE",
        help="Private key of the certificate (PEM), if it is not in the same file.",
    )
    parser.add_argument(
        f"{option}-client-ca",
        dest="server_tls_client_ca",
        type=Path,
        metavar="FILE",
        help="Require client certificates signed by one of these CAs (PEM).",
    )


def tls_given(given: Namespace) -> dict[str, str]:
    """The given options, under Apache's names."""
    settings: dict[str, str] = {}
    if given.server_tls is not None:
        settings["tls.server.mode"] = given.server_tls
    if given.server_tls_cert is not None:
        settings |= {
            "tls.server.certPath": str(given.server_tls_cert),
            "tls.test.mode.enable": "false",
        }
    if given.server_tls_key is not None:
        settings["tls.server.keyPath"] = str(given.server_tls_key)
    if given.server_tls_client_ca is not None:
        settings |= {
            "tls.server.trustCertPath": str(given.server_tls_client_ca),
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
        }
    return settings


def tls_from_file(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of `tls.properties`, which override `settings`, as in Apache.

    Raises OSError for a named file that does not exist, and BadBody.
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
    """Reloads the certificates of the servers in the yielded list at SIGHUP.

    Installed before there is a server, or an early signal would end the process. Without any files
    a closed terminal ends it, as it does other programs.
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
        log.error("certificates not reloaded, keeping the previous ones: %s", error)  # noqa: TRY400
    else:
        log.info("certificates reloaded")


def define_access(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--acl-file",
        type=Path,
        metavar="FILE",
        help="Enable access control with the accounts of this file, an Apache plain_acl.yml;"
        " `roquet account add` creates one.",
    )


def access_given(given: Namespace) -> dict[str, str]:
    """The given options, under the names of settings."""
    if given.acl_file is None:
        return {}
    return {"aclEnable": "true", "aclFile": str(given.acl_file)}


def home_from_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Where Apache's servers are installed, unless the settings name it."""
    home = os.environ.get(_HOME_VARIABLE)
    return {_HOME_KEY: home} if home and _HOME_KEY not in settings else {}


def define_monitoring(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        type=listen_place,
        metavar="HOST:PORT",
        help="Serve /metrics, /health and /ready over HTTP. A port alone listens on this machine"
        " only; 0 takes any free port. Default: off.",
    )
    define_log(parser)


def define_log(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--log",
        type=LogForm,
        choices=list(LogForm),
        default=LogForm.TEXT,
        help="Format of the log: text, or one JSON object per line (json). Default: %(default)s.",
    )


def http_given(given: Namespace) -> dict[str, str]:
    """The given options, under the names of settings."""
    return {} if given.http is None else {"httpListen": str(given.http)}


def listen_place(text: str) -> Address:
    """Raises ArgumentTypeError."""
    try:
        return read_place(text)
    except BadAddress:
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT or a port") from None


def warn_of_settings(
    path: Path, ignored: Sequence[str], is_known: Callable[[str], bool], doubtful: Sequence[str]
) -> None:
    """`ignored` have no effect, `doubtful` are read as false."""
    if ignored:
        known = [key for key in ignored if is_known(key)]
        unknown = [key for key in ignored if not is_known(key)]
        parts = [
            *([f"settings without effect: {', '.join(known)}"] if known else []),
            *([f"unknown, possibly misspelled: {', '.join(unknown)}"] if unknown else []),
        ]
        log.warning("%s: %s", path, "; ".join(parts))
    if doubtful:
        log.warning("%s: read as false, as Java does: %s", path, ", ".join(doubtful))
