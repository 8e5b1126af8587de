"""A real etcd of one server, in a directory of its own."""

import shutil
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.eventually import wait_until
from tests.support.ports import free_port

HOST = "127.0.0.1"
_STOP_TIMEOUT_S = 20.0


class RealEtcd:
    """Serves while the block runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self.address = f"{HOST}:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        clients, peers = f"http://{self.address}", f"http://{HOST}:{self._port + 1}"
        program = shutil.which("etcd")
        assert program is not None, "etcd is not installed: scripts/need_tools.sh"
        with (self._directory / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(program, "--name", "only", "--data-dir", str(self._directory / "data")),
                    *("--listen-client-urls", clients, "--advertise-client-urls", clients),
                    *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
                    *("--initial-cluster", f"only={peers}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._is_healthy)
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

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/health", timeout=5) as reply:
                return b"true" in reply.read()
        except OSError:
            return False
