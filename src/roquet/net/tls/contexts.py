"""TLS contexts of both sides: certificates, trusted authorities, and why handshakes fail.

Versions before TLS 1.2 are not supported.
"""

import asyncio
import logging
import ssl
from enum import Enum
from pathlib import Path
from typing import Final, final

from roquet.clock import Clock
from roquet.net.errors import TlsNotUsable, TlsRefused
from roquet.net.tls.settings import TlsFiles, TlsMode, TlsSettings

log = logging.getLogger(__name__)

# The first byte of a TLS handshake. No frame, and no report of a slave, starts with it.
_HANDSHAKE: Final = 0x16


def is_encrypted(first: int, mode: TlsMode) -> bool:
    """Whether a peer with this first byte speaks TLS. Raises TlsRefused if `mode` forbids it."""
    if first == _HANDSHAKE:
        if mode is TlsMode.DISABLED:
            raise TlsRefused("it speaks TLS, which is disabled here")
        return True
    if mode is TlsMode.ENFORCING:
        raise TlsRefused(
            "it does not speak TLS, which is required here: a broker needs tls.enable=true"
        )
    return False


def client_context(files: TlsFiles, *, check_host: bool, verify: bool) -> "ssl.SSLContext":
    """For connections that we open; trusts the system's authorities by default. Raises OSError."""
    context = ssl.create_default_context(cafile=files.trusted)
    # Python 3.13 refuses certificates without an authority key identifier. Those of many private
    # authorities have none, and Java and older Pythons accept them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.certificate is not None:
        _load_own(context, files)
    context.check_hostname = check_host and verify
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    return context


@final
class ClientTls:
    """The client side towards verified servers; files are read again by `reload`."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises TlsNotUsable."""
        self._files = files
        self.reload()

    @property
    def context(self) -> "ssl.SSLContext":
        """For the next connection."""
        return self._context

    def reload(self) -> None:
        """Open connections are not affected. Raises TlsNotUsable, and changes nothing."""
        try:
            self._context = client_context(self._files, check_host=True, verify=True)
        except OSError as error:  # SSLError is a subclass.
            raise TlsNotUsable(str(self._files), str(error)) from None


@final
class ServerTls:
    """The TLS contexts of a server; files are read again by `reload`."""

    def __init__(self, settings: TlsSettings, clock: Clock) -> None:
        """Raises TlsNotUsable."""
        self._settings = settings
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._outgoing: ssl.SSLContext | None = None
        # When the first certificate in the files of this server expires; None without any.
        self.expires_ms: int | None = None
        self._making: asyncio.Future[ssl.SSLContext] | None = None
        self.reload()
        if self.mode is TlsMode.ENFORCING and settings.is_self_signed:
            log.warning(
                "the certificate of this server is generated, and clients cannot verify it: "
                "set tls.server.certPath, or give --tls-cert"
            )

    @property
    def mode(self) -> TlsMode:
        return self._settings.mode

    @property
    def has_files(self) -> bool:
        return self._settings.has_files

    def outgoing(self) -> "ssl.SSLContext | None":
        """For the next connection that we open; None for a plain one."""
        return self._outgoing

    @property
    def context(self) -> "ssl.SSLContext | None":
        """For the next connection; None if a certificate has to be generated first."""
        return self._context

    def make_context(self) -> "asyncio.Future[ssl.SSLContext]":
        """Done when there is one; shared by all callers. It fails with TlsNotUsable."""
        if self._making is None:
            # The library that generates certificates is large; other clients are served meanwhile.
            self._making = asyncio.ensure_future(asyncio.to_thread(self._self_signed_context))
            self._making.add_done_callback(self._made)
        return self._making

    def _made(self, making: "asyncio.Future[ssl.SSLContext]") -> None:
        self._making = None  # After a failure the next caller tries again.
        if not making.cancelled() and making.exception() is None:
            self._context = making.result()

    def reload(self) -> None:
        """Open connections are not affected. Raises TlsNotUsable, and changes nothing."""
        settings = self._settings
        outgoing = _outgoing_context(settings)
        used = [settings.client] if outgoing is not None else []
        if self.mode is not TlsMode.DISABLED and not settings.is_self_signed:
            self._context = self._accepting_context(settings.server)
            used.append(settings.server)
        self._outgoing = outgoing
        self.expires_ms = min(
            (_expires_ms(each.certificate) for each in used if each.certificate is not None),
            default=None,
        )

    def _self_signed_context(self) -> "ssl.SSLContext":
        try:
            # Rarely needed, and servers start faster without it.
            from roquet.net.tls.self_signed import self_signed  # noqa: PLC0415
            from roquet.temporary import temporary_directory  # noqa: PLC0415

            made = self_signed((), self._clock.now_ms())
            with temporary_directory() as directory:
                path = directory / "certificate.pem"
                path.write_bytes(made.key + made.certificate)
                files = TlsFiles(certificate=path, trusted=self._settings.server.trusted)
                return self._accepting_context(files)
        # Without free descriptors, modules and libraries cannot be loaded.
        except (OSError, ImportError) as error:
            raise TlsNotUsable("a generated certificate", str(error)) from None

    def _accepting_context(self, files: TlsFiles) -> "ssl.SSLContext":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Repeated renegotiation costs a server far more than the peer.
        context.options |= ssl.OP_NO_RENEGOTIATION
        # Clients of gRPC insist on it; others do not ask.
        context.set_alpn_protocols(["h2"])
        try:
            _load_own(context, files)
            self._ask_clients(context, files)
        except OSError as error:  # SSLError is a subclass.
            raise TlsNotUsable(str(files), str(error)) from None
        return context

    def _ask_clients(self, context: "ssl.SSLContext", files: TlsFiles) -> None:
        demand = ssl.VerifyMode[f"CERT_{self._settings.client_certificates.name}"]
        if files.trusted is not None:
            context.load_verify_locations(files.trusted)
        elif self._settings.check_clients:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            demand = ssl.CERT_NONE  # There is no authority to verify it with.
        context.verify_mode = demand


def _outgoing_context(settings: TlsSettings) -> "ssl.SSLContext | None":
    """For connections to other servers; None if they are not encrypted. Raises TlsNotUsable."""
    if not settings.encrypt_calls:
        return None
    files = settings.client
    verify = settings.check_servers or files.trusted is not None
    if not verify:
        log.warning(
            "outgoing connections are encrypted, but servers are not verified: set "
            "tls.client.trustCertPath"
        )
    try:
        # Certificates of servers seldom contain their addresses. With all authorities of the system
        # a certificate of another host is easy to get, with those of a file it is not.
        return client_context(files, check_host=files.trusted is None, verify=verify)
    except OSError as error:  # SSLError is a subclass.
        raise TlsNotUsable(str(files), str(error)) from None


def _expires_ms(certificate: Path) -> int:
    """Of a file that a context has loaded: the certificate of this side, and what signed it."""
    # Large; servers without files of their own start faster without it.
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    chain = load_pem_x509_certificates(certificate.read_bytes())
    return min(round(each.not_valid_after_utc.timestamp() * 1000) for each in chain)


def _load_own(context: "ssl.SSLContext", files: TlsFiles) -> None:
    assert files.certificate is not None
    # Without a password OpenSSL would prompt at the terminal, and wait.
    context.load_cert_chain(files.certificate, files.key, files.key_password or "")


# Why handshakes fail: OpenSSL's reasons, and what to do about them.


class TlsSide(Enum):
    """Our side. The client side may be a broker or a client, so remedies name options of both."""

    CLIENT = "client"
    SERVER = "server"


def tls_failure(error: "ssl.SSLError", side: TlsSide) -> str:
    """One line about the peer, to follow its name and a colon."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message.rstrip(".")
        return f"certificate verify failed: {why}; {_remedy(error.verify_code, side)}"
    reason = error.reason or str(error)
    for part, meaning in _MEANINGS[side].items():
        if part in reason:
            return f"{meaning} ({reason})"
    return f"TLS handshake failed: {reason}"


# Codes of X509_V_ERR_* in OpenSSL's x509_vfy.h.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_HOST: Final = (62, 64)

_SIGNERS: Final = {
    TlsSide.CLIENT: (
        "add its authority to tls.client.trustCertPath, or to a client's TlsConfig.ca_file"
    ),
    TlsSide.SERVER: "add its authority to tls.server.trustCertPath",
}


def _remedy(verify_code: int, side: TlsSide) -> str:
    if verify_code in (_NOT_YET_VALID, _EXPIRED):
        return "it needs a new one, or one of the two clocks is wrong"
    if verify_code in _OTHER_HOST:
        return "it needs a certificate for the host that was connected to"
    return _SIGNERS[side]


_REJECTED_BY_SERVER: Final = (
    "it rejects our certificate, or requires one: set tls.client.certPath, or a client's"
    " TlsConfig.cert_file, to one that its tls.server.trustCertPath trusts"
)
_REJECTED_BY_CLIENT: Final = (
    "it rejects our certificate: its tls.client.trustCertPath, or TlsConfig.ca_file, has to"
    " contain its authority"
)

# By a part of OpenSSL's reason: alerts come from the other side.
_MEANINGS: Final[dict[TlsSide, dict[str, str]]] = {
    TlsSide.CLIENT: {
        "ALERT_UNKNOWN_CA": _REJECTED_BY_SERVER,
        "ALERT_CERTIFICATE": _REJECTED_BY_SERVER,
        "ALERT_BAD_CERTIFICATE": _REJECTED_BY_SERVER,
        # With TLS 1.2, the alert of a server that requires a certificate.
        "ALERT_HANDSHAKE_FAILURE": _REJECTED_BY_SERVER,
        "WRONG_VERSION_NUMBER": "it does not speak TLS",
    },
    TlsSide.SERVER: {
        "ALERT_UNKNOWN_CA": _REJECTED_BY_CLIENT,
        "ALERT_CERTIFICATE": _REJECTED_BY_CLIENT,
        "ALERT_BAD_CERTIFICATE": _REJECTED_BY_CLIENT,
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
            "it presents no certificate: a broker needs tls.client.certPath, a client"
            " TlsConfig.cert_file"
        ),
    },
}
