"""How both sides of an encrypted connection know each other: certificates, and whom they trust.

Versions before TLS 1.2 are not spoken.
"""

import asyncio
import logging
import ssl
from typing import Final, final

from roquet.clock import Clock
from roquet.net.errors import TlsNotUsable, TlsRefused
from roquet.net.tls.settings import ClientCertificates, TlsFiles, TlsMode, TlsSettings

log = logging.getLogger(__name__)

_DEMANDS: Final = {
    ClientCertificates.NONE: ssl.CERT_NONE,
    ClientCertificates.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientCertificates.REQUIRED: ssl.CERT_REQUIRED,
}


# The first byte of a TLS handshake. No frame, and no report of a slave, begins with it.
_HANDSHAKE: Final = 0x16


def is_encrypted(first: int, mode: TlsMode) -> bool:
    """Whether a peer with this first byte speaks TLS. Raises TlsRefused where that is not taken."""
    if first == _HANDSHAKE:
        if mode is TlsMode.DISABLED:
            raise TlsRefused("it speaks TLS, which is disabled here")
        return True
    if mode is TlsMode.ENFORCING:
        raise TlsRefused(
            "it does not speak TLS, and nothing else is spoken here: a broker needs tls.enable=true"
        )
    return False


def calling_context(files: TlsFiles, *, check_host: bool, verify: bool) -> ssl.SSLContext:
    """For connections that we open; without trusted files those of the system. Raises OSError."""
    context = ssl.create_default_context(cafile=files.trusted)
    # Python 3.13 refuses certificates that do not name the key of who signed them. Those of many
    # private authorities do not, and Java and older Pythons take them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.certificate is not None:
        _load_own(context, files)
    context.check_hostname = check_host and verify
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    return context


@final
class CallingTls:
    """For servers that have to prove who they are, by name; files are read again by `reload`."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises TlsNotUsable."""
        self._files = files
        self.reload()

    @property
    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        return self._context

    def reload(self) -> None:
        """Connections that are open go on as they are. Raises TlsNotUsable, and changes nothing."""
        try:
            self._context = calling_context(self._files, check_host=True, verify=True)
        except OSError as error:  # An SSLError is one, too.
            raise TlsNotUsable(str(self._files), str(error)) from None


@final
class ServerTls:
    """What a server shows to peers, and asks of them; files are read again by `reload`."""

    def __init__(self, settings: TlsSettings, clock: Clock) -> None:
        """Raises TlsNotUsable."""
        self._settings = settings
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._outgoing: ssl.SSLContext | None = None
        self._making: asyncio.Future[ssl.SSLContext] | None = None
        self.reload()
        if self.mode is TlsMode.ENFORCING and settings.is_self_signed:
            log.warning(
                "the certificate of this server is made when it starts, and nobody can check it: "
                "name one in tls.server.certPath, or give --tls-cert"
            )

    @property
    def mode(self) -> TlsMode:
        return self._settings.mode

    @property
    def has_files(self) -> bool:
        return self._settings.has_files

    def outgoing(self) -> ssl.SSLContext | None:
        """For the next connection that we open; None for a plain one."""
        return self._outgoing

    @property
    def context(self) -> ssl.SSLContext | None:
        """For the next connection; None if a certificate has to be made first."""
        return self._context

    def make_context(self) -> asyncio.Future[ssl.SSLContext]:
        """Done when there is one, for all who ask meanwhile. It fails with TlsNotUsable."""
        if self._making is None:
            # What makes certificates is large, and while it is loaded others are served.
            self._making = asyncio.ensure_future(asyncio.to_thread(self._self_signed_context))
            self._making.add_done_callback(self._made)
        return self._making

    def _made(self, making: asyncio.Future[ssl.SSLContext]) -> None:
        self._making = None  # After a failure the next one who asks tries again.
        if not making.cancelled() and making.exception() is None:
            self._context = making.result()

    def reload(self) -> None:
        """Connections that are open go on as they are. Raises TlsNotUsable, and changes nothing."""
        outgoing = _outgoing_context(self._settings)
        if self.mode is not TlsMode.DISABLED and not self._settings.is_self_signed:
            self._context = self._accepting_context(self._settings.server)
        self._outgoing = outgoing

    def _self_signed_context(self) -> ssl.SSLContext:
        try:
            # Servers seldom need it, and start faster without it.
            from roquet.net.tls.self_signed import self_signed  # noqa: PLC0415
            from roquet.temporary import temporary_directory  # noqa: PLC0415

            made = self_signed((), self._clock.now_ms())
            with temporary_directory() as directory:
                path = directory / "certificate.pem"
                path.write_bytes(made.key + made.certificate)
                files = TlsFiles(certificate=path, trusted=self._settings.server.trusted)
                return self._accepting_context(files)
        # Where there is no descriptor left, modules cannot be read, and libraries not be linked.
        except (OSError, ImportError) as error:
            raise TlsNotUsable("a certificate of our own", str(error)) from None

    def _accepting_context(self, files: TlsFiles) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A peer that asks for new keys again and again costs far more than it pays.
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            _load_own(context, files)
            self._ask_clients(context, files)
        except OSError as error:  # An SSLError is one, too.
            raise TlsNotUsable(str(files), str(error)) from None
        return context

    def _ask_clients(self, context: ssl.SSLContext, files: TlsFiles) -> None:
        demand = _DEMANDS[self._settings.client_certificates]
        if files.trusted is not None:
            context.load_verify_locations(files.trusted)
        elif self._settings.check_clients:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            demand = ssl.CERT_NONE  # There is nobody to compare it with.
        context.verify_mode = demand


def _outgoing_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """For calls to other servers; None if they are not encrypted. Raises TlsNotUsable."""
    if not settings.encrypt_calls:
        return None
    files = settings.client
    verify = settings.check_servers or files.trusted is not None
    if not verify:
        log.warning(
            "calls are encrypted, but anybody may answer them: name the certificates of other "
            "servers in tls.client.trustCertPath"
        )
    try:
        # Certificates of servers seldom name their addresses. Among all authorities of the system
        # somebody else's certificate is easily had, among those of a file it is not.
        return calling_context(files, check_host=files.trusted is None, verify=verify)
    except OSError as error:  # An SSLError is one, too.
        raise TlsNotUsable(str(files), str(error)) from None


def _load_own(context: ssl.SSLContext, files: TlsFiles) -> None:
    assert files.certificate is not None
    # Without any password OpenSSL would ask the terminal for one, and wait.
    context.load_cert_chain(files.certificate, files.key, files.key_password or "")
