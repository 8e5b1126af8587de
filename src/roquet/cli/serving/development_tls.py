"""Certificates of a cluster for trying things out: made once, kept with its messages.

DIR/tls/certificate.pem    what clients are given: `TlsConfig(ca_file=...)`
DIR/tls/key.pem            for its owner only
"""

import os
from collections.abc import Iterable
from pathlib import Path

from roquet.net.tls.self_signed import self_signed
from roquet.net.tls.settings import TlsFiles, TlsMode, TlsSettings


def development_tls(directory: Path, hosts: Iterable[str], now_ms: int) -> TlsSettings:
    """Servers that speak nothing but TLS, and check each other. Raises OSError."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    if not (certificate.exists() and key.exists()):
        made = self_signed(hosts, now_ms)
        directory.mkdir(parents=True, exist_ok=True)
        key.unlink(missing_ok=True)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(made.key)
        certificate.write_bytes(made.certificate)
    return TlsSettings(
        mode=TlsMode.ENFORCING,
        server=TlsFiles(certificate=certificate, key=key),
        encrypt_calls=True,
        client=TlsFiles(trusted=certificate),
    )


def development_settings(tls: TlsSettings) -> dict[str, str]:
    """The same, for a process of its own."""
    return {
        "tls.server.mode": tls.mode.value,
        "tls.server.certPath": str(tls.server.certificate),
        "tls.server.keyPath": str(tls.server.key),
        "tls.enable": "true",
        "tls.client.trustCertPath": str(tls.client.trusted),
    }
