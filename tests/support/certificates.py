"""Certificates for tests: an authority, and whom it vouches for."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from roquet.net.tls.settings import TlsFiles

DAY = timedelta(days=1)


class Holder(NamedTuple):
    certificate: Path
    key: Path

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(certificate=self.certificate, key=self.key)


class Authority:
    """Writes what it signs into `directory`; its own certificate is `certificate`."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = directory / f"{name}.pem"
        made = self._signed(self._name, self._key.public_key(), 365 * DAY, is_authority=True)
        self.certificate.write_bytes(made)

    def vouch_for(
        self,
        name: str = "server",
        *,
        lifetime: timedelta = 365 * DAY,
        password: str | None = None,
        address: str = "127.0.0.1",
    ) -> Holder:
        """Somebody at `address`; a `lifetime` below zero is over. Files of that name are new."""
        key = ec.generate_private_key(ec.SECP256R1())
        holder = Holder(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        holder.certificate.write_bytes(
            self._signed(_name(name), key.public_key(), lifetime, address)
        )
        locked = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        holder.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
        return holder

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey,
        lifetime: timedelta,
        address: str = "127.0.0.1",
        *,
        is_authority: bool = False,
    ) -> bytes:
        now = datetime.now(UTC)
        named = x509.IPAddress(ip_address(address))
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now + lifetime)
            .add_extension(x509.SubjectAlternativeName([named]), critical=False)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
            .public_bytes(Encoding.PEM)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
