"""The command line of a single etcd on this machine, for `roquet up` and the test kit.

Apart from its client, because the test kit works without the client's HTTP library.
"""

import shutil
from pathlib import Path
from typing import Final

from roquet.errors import RoquetError
from roquet.net.tls.settings import TlsFiles

# On the same host: where it would talk to other servers, seen from where it talks to clients.
PEERS_DISTANCE: Final = 1
_NO_FILES: Final = TlsFiles()


class EtcdMissing(RoquetError):
    """There is no program of this name on the PATH."""

    def __init__(self) -> None:
        super().__init__(
            "failover needs etcd, which is not installed: apt-get install etcd-server on Debian"
        )


def own_etcd_words(host: str, port: int, data: Path, files: TlsFiles = _NO_FILES) -> list[str]:
    """Program and arguments; with a certificate it encrypts. Raises EtcdMissing."""
    program = shutil.which("etcd")
    if program is None:
        raise EtcdMissing
    is_encrypted = files.certificate is not None
    clients = f"{'https' if is_encrypted else 'http'}://{host}:{port}"
    peers = f"http://{host}:{port + PEERS_DISTANCE}"
    words = [
        *(program, "--name", "only", "--data-dir", str(data)),
        *("--listen-client-urls", clients, "--advertise-client-urls", clients),
        *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
        *("--initial-cluster", f"only={peers}"),
    ]
    if is_encrypted:
        words += ["--cert-file", str(files.certificate), "--key-file", str(files.key)]
    return words
