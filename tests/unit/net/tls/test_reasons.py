"""Two sides that do not come to encrypt: what each of them says, and what it says to do."""

import ssl
from pathlib import Path

import pytest

from roquet.net.tls.contexts import TlsSide, client_context, tls_failure
from roquet.net.tls.settings import TlsFiles
from roquet.net.tls.transport import TlsSession
from tests.support.certificates import DAY, Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def failure(
    called_host: str, calling: ssl.SSLContext, answering: ssl.SSLContext
) -> dict[TlsSide, str]:
    """The first words of each."""
    sessions = {
        TlsSide.CLIENT: TlsSession(calling, called_host),
        TlsSide.SERVER: TlsSession(answering),
    }
    printed: dict[TlsSide, str] = {}
    received = b""
    for side in [TlsSide.CLIENT, TlsSide.SERVER] * 4:
        try:
            sessions[side].handshake(received)
        except ssl.SSLError as error:
            printed.setdefault(side, tls_failure(error, side))
        received = sessions[side].to_send()
    return printed


def server(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert files.certificate is not None
    context.load_cert_chain(files.certificate, files.key)
    return context


def trusting(authority: Authority) -> ssl.SSLContext:
    files = TlsFiles(trusted=authority.certificate)
    return client_context(files, check_host=True, verify=True)


def test_a_certificate_that_has_expired_needs_a_new_one(authority: Authority) -> None:
    old = authority.vouch_for(lifetime=-DAY).files
    printed = failure("127.0.0.1", trusting(authority), server(old))
    assert printed[TlsSide.CLIENT] == (
        "certificate verify failed: certificate has expired; it needs a new one, or one of the two"
        " clocks is wrong"
    )
    assert printed[TlsSide.SERVER].startswith("it rejects our certificate")


@pytest.mark.parametrize("host", ["127.0.0.9", "elsewhere.example"])
def test_a_certificate_for_another_host_is_reported_as_such(
    authority: Authority, host: str
) -> None:
    printed = failure(host, trusting(authority), server(authority.vouch_for().files))
    assert host in printed[TlsSide.CLIENT]
    assert "it needs a certificate for the host" in printed[TlsSide.CLIENT]


def test_an_unknown_authority_has_to_be_named(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").vouch_for("other").files
    printed = failure("127.0.0.1", trusting(authority), server(stranger))
    assert "authority to tls.client.trustCertPath" in printed[TlsSide.CLIENT]
    assert "tls.client.trustCertPath" in printed[TlsSide.SERVER]


def test_a_peer_that_is_plain_is_recognised(authority: Authority) -> None:
    session = TlsSession(trusting(authority), "127.0.0.1")
    session.handshake(b"")
    with pytest.raises(ssl.SSLError) as caught:
        session.handshake(b"HTTP/1.1 400 Bad Request\r\n")
    assert tls_failure(caught.value, TlsSide.CLIENT).startswith("it does not speak TLS")


def test_what_has_no_words_of_its_own_has_those_of_openssl(authority: Authority) -> None:
    session = TlsSession(server(authority.vouch_for().files))
    with pytest.raises(ssl.SSLError) as caught:
        session.handshake(b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00")
    assert tls_failure(caught.value, TlsSide.SERVER) == "TLS handshake failed: UNEXPECTED_MESSAGE"
