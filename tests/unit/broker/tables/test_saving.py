"""State tables and their files."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roquet.broker.tables.saving import Saver
from roquet.disk import SystemDisk
from roquet.state_file import StateFile, StateNotSaved, unsealed
from tests.support.eventually import eventually


class Table:
    def __init__(self) -> None:
        self.change_count = 0
        self.write_count = 0

    def change(self) -> None:
        self.change_count += 1

    def to_bytes(self) -> bytes:
        self.write_count += 1
        return b"{%d}" % self.change_count


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def saver(table: Table, tmp_path: Path) -> Saver:
    file = StateFile(SystemDisk(), tmp_path / "table.json")
    file.load(bytes)
    return Saver("table", file, table)


@asynccontextmanager
async def kept(saver: Saver) -> AsyncIterator[None]:
    keeping = asyncio.create_task(saver.keep_saved())
    yield
    keeping.cancel()


def content(tmp_path: Path) -> str | None:
    path = tmp_path / "table.json"
    return unsealed(path.read_bytes()).decode().strip("{}") if path.exists() else None


async def test_changes_that_come_together_are_written_once(
    saver: Saver, table: Table, tmp_path: Path
) -> None:
    async with kept(saver):
        for _ in range(5):
            table.change()
            saver.save_soon()
        await eventually(lambda: content(tmp_path) == "5")
    assert table.write_count == 1


async def test_a_table_that_did_not_change_is_not_written(
    saver: Saver, table: Table, tmp_path: Path
) -> None:
    await saver.until_saved()
    assert (table.write_count, content(tmp_path)) == (0, None)


async def test_waiters_are_answered_only_after_the_change_is_safe(
    saver: Saver, table: Table, tmp_path: Path
) -> None:
    table.change()
    waiting = [asyncio.create_task(saver.until_saved()) for _ in range(3)]
    await asyncio.gather(*waiting)
    assert (content(tmp_path), table.write_count) == ("1", 1)


async def test_a_change_during_the_write_needs_another_one(
    saver: Saver, table: Table, tmp_path: Path
) -> None:
    table.change()
    first = asyncio.create_task(saver.until_saved())
    await eventually(lambda: table.write_count == 1)
    table.change()
    await saver.until_saved()
    await first
    assert content(tmp_path) == "2"


async def test_a_full_disk_is_reported_to_waiters_and_retried_for_the_rest(
    saver: Saver,
    table: Table,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("roquet.broker.tables.saving.RETRY_PAUSE_S", 0.01)
    (tmp_path / "table.json.tmp").mkdir()  # nothing can be written aside now
    table.change()
    with pytest.raises(StateNotSaved):
        await saver.until_saved()
    async with kept(saver):
        saver.save_soon()
        await eventually(lambda: "table not saved" in caplog.text)
        (tmp_path / "table.json.tmp").rmdir()
        await eventually(lambda: content(tmp_path) == "1")


class GatedDisk(SystemDisk):
    """Waits in each sync of a file until it may go on."""

    def __init__(self) -> None:
        self.may_sync = threading.Event()
        self.sync_count = 0

    def sync(self, descriptor: int) -> None:
        self.sync_count += 1
        assert self.may_sync.wait(10)
        super().sync(descriptor)


async def test_a_cancelled_save_leaves_no_thread_at_the_file(table: Table, tmp_path: Path) -> None:
    disk = GatedDisk()
    file = StateFile(disk, tmp_path / "table.json")
    file.load(bytes)
    saver = Saver("table", file, table)
    table.change()
    given_up = asyncio.create_task(saver.until_saved())
    await eventually(lambda: disk.sync_count == 1)
    given_up.cancel()
    table.change()
    last = asyncio.create_task(saver.until_saved())
    await asyncio.wait([last], timeout=0.05)
    assert disk.sync_count == 1
    disk.may_sync.set()
    await last
    assert content(tmp_path) == "2"
    assert given_up.cancelled()
