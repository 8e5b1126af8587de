"""Whom servers secret, what they show, and what becomes of files that cannot be used."""

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.clock import SystemClock
from roquet.net.errors import TlsNotUsable, TlsRefused
from roquet.net.tls.contexts import ServerTls, is_encrypted
from roquet.net.tls.settings import ClientCertificates, TlsFiles, TlsMode, TlsSettings
from tests.support.certificates import DAY, Authority

CLOCK = SystemClock()


def test_a_broken_file_changes_nothing_at_a_reload(tmp_path: Path) -> None:
    holder = Authority(tmp_path).vouch_for()
    tls = ServerTls(TlsSettings(server=holder.files), CLOCK)
    before = tls.context
    for path in (holder.certificate, holder.key):
        text = path.read_text()
        path.write_text("half of it")
        with pytest.raises(TlsNotUsable, match=path.name):
            tls.reload()
        assert tls.context is before
        path.write_text(text)
    tls.reload()
    assert tls.context is not before


def test_the_first_certificate_to_expire_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.vouch_for("server", lifetime=30 * DAY)
    client = authority.vouch_for("client", lifetime=9 * DAY)
    # With what signed it, which is valid for a year.
    chain = server.certificate.read_bytes() + authority.certificate.read_bytes()
    server.certificate.write_bytes(chain)
    settings = TlsSettings(server=server.files, client=client.files)

    def days_left(tls: ServerTls) -> float:
        assert tls.expires_ms is not None
        return round((tls.expires_ms - CLOCK.now_ms()) / DAY.total_seconds() / 1000)

    tls = ServerTls(settings, CLOCK)
    # That of a client is not used.
    assert days_left(tls) == 30
    assert days_left(ServerTls(replace(settings, encrypt_calls=True), CLOCK)) == 9
    authority.vouch_for("server", lifetime=60 * DAY)
    tls.reload()
    assert days_left(tls) == 60
    assert ServerTls(TlsSettings(), CLOCK).expires_ms is None


@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_locked_key_needs_its_password_and_does_not_prompt(
    tmp_path: Path, password: str | None
) -> None:
    holder = Authority(tmp_path).vouch_for(password="right")

    def settings(text: str | None) -> TlsSettings:
        files = TlsFiles(certificate=holder.certificate, key=holder.key, key_password=text)
        return TlsSettings(server=files)

    assert ServerTls(settings("right"), CLOCK).has_files
    with pytest.raises(TlsNotUsable, match=r"server\.key") as caught:
        ServerTls(settings(password), CLOCK)
    assert "wrong" not in str(caught.value)


def test_where_nothing_is_encrypted_no_file_is_read(tmp_path: Path) -> None:
    nowhere = TlsFiles(certificate=tmp_path / "nowhere.pem")
    assert ServerTls(TlsSettings(mode=TlsMode.DISABLED, server=nowhere), CLOCK).outgoing() is None


async def test_old_versions_are_not_spoken() -> None:
    tls = ServerTls(TlsSettings(encrypt_calls=True), CLOCK)
    for context in (await tls.make_context(), tls.outgoing()):
        assert context is not None
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("demand", "mode"),
    [
        (ClientCertificates.NONE, ssl.CERT_NONE),
        (ClientCertificates.OPTIONAL, ssl.CERT_OPTIONAL),
        (ClientCertificates.REQUIRED, ssl.CERT_REQUIRED),
    ],
)
async def test_clients_are_asked_for_what_the_settings_say(
    tmp_path: Path, demand: ClientCertificates, mode: ssl.VerifyMode
) -> None:
    authority = Authority(tmp_path)
    named = TlsSettings(server=TlsFiles(trusted=authority.certificate), client_certificates=demand)
    assert (await ServerTls(named, CLOCK).make_context()).verify_mode is mode
    by_the_system = TlsSettings(client_certificates=demand, check_clients=True)
    assert (await ServerTls(by_the_system, CLOCK).make_context()).verify_mode is mode


async def test_a_certificate_that_cannot_be_compared_is_not_asked_for() -> None:
    settings = TlsSettings(client_certificates=ClientCertificates.OPTIONAL)
    assert (await ServerTls(settings, CLOCK).make_context()).verify_mode is ssl.CERT_NONE


def outgoing_of(settings: TlsSettings) -> ssl.SSLContext:
    context = ServerTls(settings, CLOCK).outgoing()
    assert context is not None
    return context


def test_other_servers_are_checked_where_a_command_is_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    named = TlsSettings(
        encrypt_calls=True, client=TlsFiles(trusted=Authority(tmp_path).certificate)
    )
    assert outgoing_of(named).verify_mode is ssl.CERT_REQUIRED
    assert not outgoing_of(named).check_hostname
    by_the_system = outgoing_of(TlsSettings(encrypt_calls=True, check_servers=True))
    assert by_the_system.verify_mode is ssl.CERT_REQUIRED
    assert by_the_system.check_hostname
    assert not caplog.records
    assert outgoing_of(TlsSettings(encrypt_calls=True)).verify_mode is ssl.CERT_NONE
    assert "servers are not verified" in caplog.text


def test_files_for_calls_are_named_when_they_cannot_be_used(tmp_path: Path) -> None:
    files = TlsFiles(trusted=tmp_path / "nowhere.pem")
    with pytest.raises(TlsNotUsable, match=r"nowhere\.pem"):
        ServerTls(TlsSettings(encrypt_calls=True, client=files), CLOCK)


def test_a_server_with_only_tls_and_a_self_signed_certificate_logs_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ServerTls(TlsSettings(mode=TlsMode.ENFORCING), CLOCK)
    assert "clients cannot verify it" in caplog.text


async def test_all_that_ask_at_once_get_the_same_certificate() -> None:
    tls = ServerTls(TlsSettings(), CLOCK)
    assert tls.context is None
    one, other = await asyncio.gather(tls.make_context(), tls.make_context())
    assert one is other is tls.context


WITHOUT_DESCRIPTORS = """
import asyncio, os, resource
from roquet.clock import SystemClock
from roquet.net.errors import TlsNotUsable
from roquet.net.tls.contexts import ServerTls
from roquet.net.tls.settings import TlsSettings

async def main():
    tls = ServerTls(TlsSettings(), SystemClock())
    await asyncio.to_thread(int)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        pass
    # There is none left; then one more each time, until there are enough.
    while taken:
        try:
            await tls.make_context()
            break
        except TlsNotUsable as error:
            assert "Too many open files" in str(error)
            os.close(taken.pop())
    print("made")

asyncio.run(main())
"""


def test_a_peer_that_comes_when_descriptors_have_run_out_is_refused_and_the_next_is_not() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == "made\n"


async def test_what_could_not_be_made_is_tried_again(tmp_path: Path) -> None:
    trusted = tmp_path / "authority.pem"
    tls = ServerTls(TlsSettings(server=TlsFiles(trusted=trusted)), CLOCK)
    with pytest.raises(TlsNotUsable, match=r"authority\.pem"):
        await tls.make_context()
    Authority(tmp_path)
    assert await tls.make_context() is tls.context


@pytest.mark.parametrize(
    ("first", "mode", "expected"),
    [
        (0x16, TlsMode.DISABLED, None),
        (0x16, TlsMode.PERMISSIVE, True),
        (0x16, TlsMode.ENFORCING, True),
        (0x00, TlsMode.DISABLED, False),
        (0x00, TlsMode.PERMISSIVE, False),
        (0x00, TlsMode.ENFORCING, None),
    ],
)
def test_the_first_byte_of_a_peer_and_the_mode_decide(
    first: int, mode: TlsMode, *, expected: bool | None
) -> None:
    if expected is None:
        with pytest.raises(TlsRefused):
            is_encrypted(first, mode)
    else:
        assert is_encrypted(first, mode) is expected
