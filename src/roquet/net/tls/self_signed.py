"""Self-signed certificates that servers generate, for trying things out.

They protect against eavesdropping only: a client that does not have the certificate itself cannot
verify the server.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME: Final = timedelta(days=3650)
# Clocks of other machines may be slow.
_BACKDATED: Final = timedelta(days=1)
_ALWAYS: Final = ("localhost", "127.0.0.1", "::1")


class SelfSigned(NamedTuple):
    """Both in PEM."""

    certificate: bytes
    key: bytes


def self_signed(hosts: Iterable[str], now_ms: int) -> SelfSigned:
    """For this machine and `hosts`, names or addresses; valid for ten years."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "roquet self-signed")])
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    names = [_general_name(host) for host in dict.fromkeys((*_ALWAYS, *hosts))]
    public_key = key.public_key()
    key_id = x509.SubjectKeyIdentifier.from_public_key(public_key)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # It signs itself, so it has to be a CA.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_USAGE, critical=True)
        .add_extension(x509.ExtendedKeyUsage(_PURPOSES), critical=False)
        .add_extension(key_id, critical=False)
    )
    return SelfSigned(
        builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


_PURPOSES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_USAGE: Final = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
