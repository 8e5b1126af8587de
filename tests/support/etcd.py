"""A real etcd of one server, in a directory of its own."""

import shutil
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from roquet.net.tls.contexts import ClientTls
from roquet.net.tls.settings import TlsFiles
from tests.support.eventually import wait_until
from tests.support.ports import free_port

HOST = "127.0.0.1"
_STOP_TIMEOUT_S = 20.0


class RealEtcd:
    """Serves while the block runs.

    With `tls` it encrypts, and wants a certificate of everybody that those in `trusted` vouch for.
    """

    def __init__(
        self, directory: Path, tls: TlsFiles | None = None, words: tuple[str, ...] = ()
    ) -> None:
        """`words` are further ones of its command line."""
        self._directory = directory
        self._words = words
        self._port = free_port()
        self._tls = tls
        self.address = f"{HOST}:{self._port}"
        self.url = self.address if tls is None else f"https://{self.address}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        scheme = "http" if self._tls is None else "https"
        clients, peers = f"{scheme}://{self.address}", f"http://{HOST}:{self._port + 1}"
        program = shutil.which("etcd")
        assert program is not None, "etcd is not installed: scripts/need_tools.sh"
        with (self._directory / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(program, "--name", "only", "--data-dir", str(self._directory / "data")),
                    *("--listen-client-urls", clients, "--advertise-client-urls", clients),
                    *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
                    *("--initial-cluster", f"only={peers}"),
                    *_tls_words(self._tls),
                    *self._words,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: self._is_healthy(clients))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_STOP_TIMEOUT_S)

    def _is_healthy(self, clients: str) -> bool:
        context = None if self._tls is None else ClientTls(self._tls).context
        try:
            with urllib.request.urlopen(  # noqa: S310  It is http, or https.
                f"{clients}/health", timeout=5, context=context
            ) as reply:
                return b"true" in reply.read()
        except OSError:
            return False


def _tls_words(tls: TlsFiles | None) -> list[str]:
    if tls is None:
        return []
    return [
        *("--cert-file", str(tls.certificate), "--key-file", str(tls.key)),
        *("--client-cert-auth", "--trusted-ca-file", str(tls.trusted)),
    ]
