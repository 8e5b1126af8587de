"""What a master sends its slaves, and which of them it sends nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roquet.broker.replication.epochs import EpochFile, SharedSecret
from roquet.broker.replication.frames import encode_header, encode_report
from roquet.broker.replication.master import LINK_COUNT_MAX
from roquet.net.errors import AddressTaken
from roquet.net.tls.settings import ClientCertificates, TlsFiles, TlsMode, TlsSettings
from roquet.store.config import FlushMode
from tests.support.certificates import Authority, Holder
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.golden_replication import SIZES, log_bytes, master_store, recorded
from tests.support.quick_disk import QuickDisk
from tests.support.raising import raises
from tests.support.replicas import (
    HOST,
    Master,
    RunningSlave,
    raw_slave,
    running_slave,
    serving_master,
)
from tests.support.tcp_proxy import PROXY_HOST, TcpProxy

PATIENCE_S = 20.0


async def read_exactly(reader: asyncio.StreamReader, size: int) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return await reader.readexactly(size)


async def read_log(reader: asyncio.StreamReader, position: int, end: int) -> bytes:
    """The bytes of the log that come, whose frames have to follow each other."""
    found = b""
    while position < end:
        header = await read_exactly(reader, 12)
        size = int.from_bytes(header[8:])
        assert header == encode_header(position, size)
        found += await read_exactly(reader, size)
        position += size
    return found


async def is_closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(PATIENCE_S):
        return await reader.read() == b""


async def test_a_slave_of_an_apache_master_gets_the_same_bytes_from_ours(tmp_path: Path) -> None:
    root = master_store(tmp_path)
    expected = b"".join(data for data in recorded("master") if len(data) > 12)
    async with serving_master(root, SIZES) as master, raw_slave(master.port) as (reader, writer):
        for report in recorded("slave"):
            writer.write(report)
            if report == recorded("slave")[0]:
                found = await read_log(reader, 0, 50817)
        assert found == expected
        await eventually(lambda: master.replicas.confirmed_end == 50817)


async def test_nothing_is_sent_before_the_slave_has_reported(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master, raw_slave(master.port) as (reader, writer):
        master.store.append(draft())
        writer.write(encode_report(0)[:5])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.readexactly(1)
        writer.write(encode_report(0)[5:])
        assert len(await read_log(reader, 0, master.store.log_end)) == master.store.log_end


async def test_what_comes_later_is_sent_later_from_where_the_slave_is(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master, raw_slave(master.port) as (reader, writer):
        first = master.store.append(draft())
        writer.write(encode_report(first.size))
        await eventually(lambda: master.replicas.slaves)
        second = master.store.append(draft(b"second"))
        found = await read_log(reader, first.size, first.size + second.size)
        assert found == master.store.record_at(second.physical_offset)


async def test_frames_do_not_cross_files_and_are_not_too_large(tmp_path: Path) -> None:
    async with serving_master(tmp_path, ha_frame_size_max=1000) as master:
        for _ in range(30):
            master.store.append(draft(b"x" * 300))
        end = master.store.log_end
        assert end > 4096
        async with raw_slave(master.port) as (reader, writer):
            writer.write(encode_report(0))
            position = 0
            while position < end:
                header = await read_exactly(reader, 12)
                size = int.from_bytes(header[8:])
                assert 0 < size <= 1000
                assert position // 4096 == (position + size - 1) // 4096
                await read_exactly(reader, size)
                position += size


async def test_an_idle_link_shows_signs_of_life(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master, raw_slave(master.port) as (reader, writer):
        writer.write(encode_report(0))
        assert await read_exactly(reader, 24) == 2 * encode_header(0, 0)


async def test_with_sync_flush_nothing_is_sent_that_is_not_on_disk(tmp_path: Path) -> None:
    """Nobody syncs here until the test says so."""
    sizes = {"flush_mode": FlushMode.SYNC}
    async with (
        serving_master(tmp_path, sizes) as master,
        raw_slave(master.port) as (
            reader,
            writer,
        ),
    ):
        appended = master.store.append(draft())
        writer.write(encode_report(0))
        assert await read_exactly(reader, 12) == encode_header(0, 0)
        master.store.flush()
        header = b""
        while header[8:] in (b"", bytes(4)):
            header = await read_exactly(reader, 12)
        assert header == encode_header(0, appended.size)


@pytest.mark.parametrize("reported", [-1, 10_000])
async def test_a_slave_that_cannot_continue_is_refused_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reported: int
) -> None:
    async with serving_master(tmp_path) as master, raw_slave(master.port) as (reader, writer):
        writer.write(encode_report(reported))
        assert await is_closed(reader)
        await eventually(lambda: "move its store directory away" in caplog.text)
        assert not master.replicas.slaves
    lines = [each for each in caplog.messages if "disconnected" in each]
    assert len(lines) == 1
    assert f"ends at {reported}" in lines[0]


async def test_a_slave_that_confirms_what_was_never_there_is_let_go(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master, raw_slave(master.port) as (_, writer):
        writer.write(encode_report(0))
        await eventually(lambda: master.replicas.slaves)
        writer.write(encode_report(1))
        await eventually(lambda: not master.replicas.slaves)
        assert master.replicas.confirmed_end == 0


async def test_a_silent_slave_is_let_go(tmp_path: Path) -> None:
    async with (
        serving_master(tmp_path, ha_silence_ms_max=200) as master,
        raw_slave(master.port) as (_, writer),
    ):
        writer.write(encode_report(0))
        await eventually(lambda: master.replicas.slaves)
        await eventually(lambda: not master.replicas.slaves)


async def test_a_slave_that_leaves_is_forgotten(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master:
        async with raw_slave(master.port) as (_, writer):
            writer.write(encode_report(0))
            await eventually(lambda: master.replicas.slaves)
        await eventually(lambda: not master.replicas.slaves)


async def test_strangers_cannot_take_all_descriptors(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master:
        strangers = [
            await asyncio.open_connection(HOST, master.port) for _ in range(LINK_COUNT_MAX)
        ]
        await eventually(lambda: len(master.links._links) == LINK_COUNT_MAX)
        async with raw_slave(master.port) as (reader, _):
            assert await is_closed(reader)
        for _, writer in strangers:
            writer.close()


async def test_a_slave_from_an_untrusted_address_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_master(tmp_path) as master:
        master.links.may_follow = lambda ip: ip != HOST
        async with raw_slave(master.port) as (reader, _):
            assert await is_closed(reader)
        assert "no account trusts its address" in caplog.text


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master:
        with raises(AddressTaken, port=master.port):
            master.links.start(master.config)


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


async def is_copied(master: Master, slave: RunningSlave) -> None:
    await eventually(lambda: slave.store.log_end == master.store.log_end)
    await eventually(lambda: master.replicas.confirmed_end == master.store.log_end)


@asynccontextmanager
async def tap(master: Master) -> AsyncIterator[tuple[str, list[bytes]]]:
    """An address that leads to the master, and all that passes."""
    async with TcpProxy(PROXY_HOST, master.address) as proxy:
        proxy.overheard = []
        yield f"{PROXY_HOST}:{master.port}", proxy.overheard


@pytest.mark.parametrize("has_secret", [False, True])
async def test_an_encrypted_copy_is_the_same_and_unreadable_on_its_way(
    tmp_path: Path, authority: Authority, holder: Holder, *, has_secret: bool
) -> None:
    def secret(name: str) -> SharedSecret | None:
        epochs = EpochFile(QuickDisk(), tmp_path / name)
        return SharedSecret(b"a secret of both of them", epochs) if has_secret else None

    master_settings: dict[str, Any] = {"secret": secret("master"), "tls": showing(holder)}
    slave_settings: dict[str, Any] = {"secret": secret("slave"), "tls": trusting(authority)}
    async with serving_master(tmp_path / "master", **master_settings) as master:
        fill(master, 100)
        async with (
            tap(master) as (address, passed),
            running_slave(tmp_path / "slave", address, **slave_settings) as slave,
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
            running_slave(tmp_path / "slave", address) as slave,
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
            async with running_slave(tmp_path / name, master.address, tls=chosen) as slave:
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
        assert not master.replicas.slaves
    (line,) = [each for each in caplog.messages if each.startswith("refusing slave")]
    assert "which is required here: a broker needs tls.enable=true" in line


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
        running_slave(tmp_path / "slave", master.address, tls=stranger) as slave,
    ):
        fill(master, 1)
        await eventually(lambda: "authority to tls.client.trustCertPath" in caplog.text)
        await eventually(lambda: "it rejects our certificate: its tls.client" in caplog.text)
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
    def secret(name: str) -> SharedSecret | None:
        epochs = EpochFile(QuickDisk(), tmp_path / name)
        return SharedSecret(b"a secret of both of them", epochs) if has_secret else None

    demanding = TlsSettings(
        mode=TlsMode.ENFORCING,
        server=replace(holder.files, trusted=authority.certificate),
        client_certificates=ClientCertificates.REQUIRED,
    )
    stranger = Authority(tmp_path, "stranger").vouch_for("other")
    tls = trusting(authority, stranger)
    async with serving_master(
        tmp_path / "master", tls=demanding, secret=secret("master")
    ) as master:
        fill(master, 1)
        async with running_slave(
            tmp_path / "slave", master.address, tls=tls, secret=secret("slave")
        ) as slave:
            await eventually(lambda: "authority to tls.server.trustCert" in caplog.text)
            await eventually(lambda: "it rejects our certificate, or requires" in caplog.text)
            assert slave.store.log_end == 0
        own = trusting(authority, authority.vouch_for("slave"))
        async with running_slave(
            tmp_path / "slave", master.address, tls=own, secret=secret("slave")
        ) as slave:
            await is_copied(master, slave)


async def test_a_link_continues_after_a_reload_and_the_next_one_sees_the_new_certificate(
    tmp_path: Path, authority: Authority, holder: Holder, caplog: pytest.LogCaptureFixture
) -> None:
    tls = trusting(authority)
    async with serving_master(tmp_path / "master", tls=showing(holder)) as master:
        async with running_slave(tmp_path / "slave", master.address, tls=tls) as slave:
            await eventually(lambda: master.replicas.slaves)
            Authority(tmp_path, "stranger").vouch_for()
            master.tls.reload()
            fill(master, 10)
            await is_copied(master, slave)
        assert "verify failed" not in caplog.text
        async with running_slave(tmp_path / "slave", master.address, tls=tls):
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
        async with running_slave(
            tmp_path / "slave", master.address, sizes, tls=trusting(authority)
        ) as slave:
            await is_copied(master, slave)
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")
