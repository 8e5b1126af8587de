"""A link of replicas: encrypted or not, as the master's mode and the slave's switch say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roquet.broker.replication.epoch_file import EpochFile
from roquet.broker.replication.frames import encode_report
from roquet.broker.replication.trust import Trust
from roquet.net.tls.settings import ClientCertificates, TlsFiles, TlsMode, TlsSettings
from tests.support.certificates import Authority, Holder
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.golden_replication import log_bytes
from tests.support.quick_disk import QuickDisk
from tests.support.replicas import Follower, Master, following, raw_slave, serving_master
from tests.support.tcp_proxy import PROXY_HOST, TcpProxy

CLIENT_HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
TEXT = b"the text of a record that nobody else may read"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def holder(authority: Authority) -> Holder:
    return authority.vouch_for()


def showing(holder: Holder, mode: TlsMode = TlsMode.ENFORCING) -> TlsSettings:
    return TlsSettings(mode=mode, server=holder.files)


def trusting(authority: Authority, own: Holder | None = None) -> TlsSettings:
    files = TlsFiles() if own is None else own.files
    return TlsSettings(encrypt_calls=True, client=replace(files, trusted=authority.certificate))


def fill(master: Master, count: int) -> None:
    for _ in range(count):
        master.store.append(draft(TEXT * 5))


async def is_copied(master: Master, slave: Follower) -> None:
    await eventually(lambda: slave.store.log_end == master.store.log_end)
    await eventually(lambda: master.copies.confirmed_end == master.store.log_end)


@asynccontextmanager
async def tap(master: Master) -> AsyncIterator[tuple[str, list[bytes]]]:
    """An address that leads to the master, and all that passes."""
    async with TcpProxy(PROXY_HOST, master.address) as proxy:
        proxy.overheard = []
        yield f"{PROXY_HOST}:{master.port}", proxy.overheard


@pytest.mark.parametrize("has_secret", [False, True])
async def test_an_encrypted_copy_is_the_same_and_nobody_reads_it_on_its_way(
    tmp_path: Path, authority: Authority, holder: Holder, *, has_secret: bool
) -> None:
    def trust(name: str) -> Trust | None:
        epochs = EpochFile(QuickDisk(), tmp_path / name)
        return Trust(b"a secret of both of them", epochs) if has_secret else None

    master_settings: dict[str, Any] = {"trust": trust("master"), "tls": showing(holder)}
    slave_settings: dict[str, Any] = {"trust": trust("slave"), "tls": trusting(authority)}
    async with serving_master(tmp_path / "master", **master_settings) as master:
        fill(master, 100)
        async with (
            tap(master) as (address, passed),
            following(tmp_path / "slave", address, **slave_settings) as slave,
        ):
            await is_copied(master, slave)
            fill(master, 100)
            await is_copied(master, slave)
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")
    seen = b"".join(passed)
    assert len(seen) > 200 * 5 * len(TEXT)
    assert TEXT not in seen
    assert b"Registration" not in seen


async def test_without_encryption_all_of_it_can_be_read(tmp_path: Path) -> None:
    """What the test above looks for is there to be found."""
    async with serving_master(tmp_path / "master") as master:
        fill(master, 10)
        async with (
            tap(master) as (address, passed),
            following(tmp_path / "slave", address) as slave,
        ):
            await is_copied(master, slave)
    assert TEXT in b"".join(passed)


async def test_where_both_are_permitted_slaves_choose(
    tmp_path: Path, authority: Authority, holder: Holder
) -> None:
    tls = showing(holder, TlsMode.PERMISSIVE)
    async with serving_master(tmp_path / "master", tls=tls) as master:
        fill(master, 10)
        for name, chosen in (("plain", TlsSettings()), ("encrypted", trusting(authority))):
            async with following(tmp_path / name, master.address, tls=chosen) as slave:
                await eventually(lambda: slave.store.log_end == master.store.log_end)


async def test_a_plain_slave_is_refused_where_tls_is_enforced(
    tmp_path: Path, holder: Holder, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_master(tmp_path, tls=showing(holder)) as master:
        fill(master, 1)
        for _ in range(3):
            async with raw_slave(master.port) as (reader, writer):
                writer.write(encode_report(0))
                assert await asyncio.wait_for(reader.read(), 30) == b""
        assert not master.copies.slaves
    (line,) = [each for each in caplog.messages if each.startswith("refusing slave")]
    assert "nothing else is spoken here: a broker needs tls.enable=true" in line


async def test_an_encrypted_slave_is_refused_where_tls_is_disabled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = TlsSettings(mode=TlsMode.DISABLED)
    async with serving_master(tmp_path, tls=tls) as master, raw_slave(master.port) as slave:
        reader, writer = slave
        writer.write(CLIENT_HELLO_BEGINS)
        assert await asyncio.wait_for(reader.read(), 30) == b""
    assert "it speaks TLS, which is disabled here" in caplog.text


async def test_a_master_of_another_authority_is_not_followed(
    tmp_path: Path, holder: Holder, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = trusting(Authority(tmp_path, "stranger"))
    async with (
        serving_master(tmp_path / "master", tls=showing(holder)) as master,
        following(tmp_path / "slave", master.address, tls=stranger) as slave,
    ):
        fill(master, 1)
        await eventually(lambda: "name who signed it in tls.client.trustCertPath" in caplog.text)
        await eventually(lambda: "it does not take our certificate: its tls.client" in caplog.text)
        assert slave.store.log_end == 0


@pytest.mark.parametrize("has_secret", [False, True])
async def test_a_slave_of_another_authority_is_not_let_in(
    tmp_path: Path,
    authority: Authority,
    holder: Holder,
    caplog: pytest.LogCaptureFixture,
    *,
    has_secret: bool,
) -> None:
    def trust(name: str) -> Trust | None:
        epochs = EpochFile(QuickDisk(), tmp_path / name)
        return Trust(b"a secret of both of them", epochs) if has_secret else None

    demanding = TlsSettings(
        mode=TlsMode.ENFORCING,
        server=replace(holder.files, trusted=authority.certificate),
        client_certificates=ClientCertificates.REQUIRED,
    )
    stranger = Authority(tmp_path, "stranger").vouch_for("other")
    tls = trusting(authority, stranger)
    async with serving_master(tmp_path / "master", tls=demanding, trust=trust("master")) as master:
        fill(master, 1)
        async with following(
            tmp_path / "slave", master.address, tls=tls, trust=trust("slave")
        ) as slave:
            await eventually(lambda: "name who signed it in tls.server.trustCert" in caplog.text)
            await eventually(lambda: "it does not take our certificate, or wants" in caplog.text)
            assert slave.store.log_end == 0
        own = trusting(authority, authority.vouch_for("slave"))
        async with following(
            tmp_path / "slave", master.address, tls=own, trust=trust("slave")
        ) as slave:
            await is_copied(master, slave)


async def test_a_link_goes_on_after_a_reload_and_the_next_one_sees_the_new_certificate(
    tmp_path: Path, authority: Authority, holder: Holder, caplog: pytest.LogCaptureFixture
) -> None:
    tls = trusting(authority)
    async with serving_master(tmp_path / "master", tls=showing(holder)) as master:
        async with following(tmp_path / "slave", master.address, tls=tls) as slave:
            await eventually(lambda: master.copies.slaves)
            Authority(tmp_path, "stranger").vouch_for()
            master.tls.reload()
            fill(master, 10)
            await is_copied(master, slave)
        assert "verify failed" not in caplog.text
        async with following(tmp_path / "slave", master.address, tls=tls):
            await eventually(lambda: "certificate verify failed" in caplog.text)


async def test_a_handshake_that_does_not_end_costs_its_link(
    tmp_path: Path, holder: Holder, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving_master(tmp_path, ha_silence_ms_max=200, tls=showing(holder)) as master,
        raw_slave(master.port) as (reader, writer),
    ):
        writer.write(CLIENT_HELLO_BEGINS)
        await eventually(lambda: len(master.links._links) == 1)
        assert await asyncio.wait_for(reader.read(), 30) == b""
        await eventually(lambda: not master.links._links)
    assert "no answer in time" in caplog.text


async def test_more_than_the_network_takes_at_once_arrives_whole(
    tmp_path: Path, authority: Authority, holder: Holder
) -> None:
    sizes = {"commit_log_file_size": 1 << 20}
    async with serving_master(tmp_path / "master", sizes, tls=showing(holder)) as master:
        while master.store.log_end < 12 << 20:
            master.store.append(draft(TEXT * 10_000))
        async with following(
            tmp_path / "slave", master.address, sizes, tls=trusting(authority)
        ) as slave:
            await is_copied(master, slave)
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")
