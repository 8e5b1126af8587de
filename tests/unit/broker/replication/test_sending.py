"""What a master sends its slaves, and which of them it sends nothing."""

import asyncio
from pathlib import Path

import pytest

from roquet.broker.replication.frames import encode_header, encode_report
from roquet.broker.replication.sending import LINK_COUNT_MAX
from roquet.net.errors import AddressTaken
from roquet.store.config import FlushMode
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.golden_replication import SIZES, master_store, recorded
from tests.support.replicas import HOST, raw_slave, serving_master

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
        await eventually(lambda: master.copies.confirmed_end == 50817)


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
        await eventually(lambda: master.copies.slaves)
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
async def test_a_slave_that_cannot_go_on_is_told_off_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, reported: int
) -> None:
    async with serving_master(tmp_path) as master, raw_slave(master.port) as (reader, writer):
        writer.write(encode_report(reported))
        assert await is_closed(reader)
        await eventually(lambda: "move its store directory away" in caplog.text)
        assert not master.copies.slaves
    lines = [each for each in caplog.messages if "is gone" in each]
    assert len(lines) == 1
    assert f"ends at {reported}" in lines[0]


async def test_a_slave_that_confirms_what_was_never_there_is_let_go(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master, raw_slave(master.port) as (_, writer):
        writer.write(encode_report(0))
        await eventually(lambda: master.copies.slaves)
        writer.write(encode_report(1))
        await eventually(lambda: not master.copies.slaves)
        assert master.copies.confirmed_end == 0


async def test_a_silent_slave_is_let_go(tmp_path: Path) -> None:
    async with (
        serving_master(tmp_path, ha_silence_ms_max=200) as master,
        raw_slave(master.port) as (_, writer),
    ):
        writer.write(encode_report(0))
        await eventually(lambda: master.copies.slaves)
        await eventually(lambda: not master.copies.slaves)


async def test_a_slave_that_leaves_is_forgotten(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master:
        async with raw_slave(master.port) as (_, writer):
            writer.write(encode_report(0))
            await eventually(lambda: master.copies.slaves)
        await eventually(lambda: not master.copies.slaves)


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


async def test_a_slave_from_an_address_that_nobody_trusts_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_master(tmp_path) as master:
        master.links.may_follow = lambda ip: ip != HOST
        async with raw_slave(master.port) as (reader, _):
            assert await is_closed(reader)
        assert "no account trusts its address" in caplog.text


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with serving_master(tmp_path) as master:
        with pytest.raises(AddressTaken, match=str(master.port)):
            master.links.start(master.config)
