"""Who gets the last descriptors and mappings of a process."""

import errno
import mmap
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet import process_limits
from roquet.disk import SystemDisk
from roquet.process_limits import (
    KEPT_FILES,
    DescriptorLimits,
    KeptFiles,
    descriptor_limits,
    is_near,
    kept_limit,
    map_count_max,
    map_limit,
    shortage_remedy,
)
from tests.support.raising import raises

DISK = SystemDisk()
SIZE = mmap.PAGESIZE


@pytest.mark.parametrize(
    ("limit", "last_count", "shared_end", "kind_max"),
    [
        (256, 16, 224, 160),
        (1024, 64, 896, 640),
        (20_000, 64, 19_872, 15_776),
        (1_000_000, 64, 999_872, 995_776),
    ],
)
def test_files_and_connections_each_have_a_share_and_operators_the_last(
    limit: int, last_count: int, shared_end: int, kind_max: int
) -> None:
    limits = DescriptorLimits(limit)
    assert (limits.last_count, limits.shared_end) == (last_count, shared_end)
    assert limits.kind_max == kind_max


@pytest.mark.parametrize(
    ("descriptor", "file_count", "is_local", "may"),
    [
        # Without files, connections leave them a quarter.
        (639, 0, False, True),
        (640, 0, False, False),
        # Where files have theirs, connections get what is left.
        (895, 640, False, True),
        (896, 640, False, False),
        # Those of the machine itself have some more, but not what files need.
        (959, 640, True, True),
        (960, 640, True, False),
        (703, 0, True, True),
        (704, 0, True, False),
    ],
)
def test_a_connection_keeps_a_descriptor_that_files_do_not_need(
    descriptor: int, file_count: int, is_local: bool, may: bool
) -> None:
    limits = DescriptorLimits(1024)
    assert limits.may_connect(descriptor, file_count=file_count, is_local=is_local) == may


def test_no_limit_is_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: unlimited)
    assert descriptor_limits().count == sys.maxsize


def test_the_last_mappings_are_for_memory() -> None:
    assert map_count_max(65_530) == 65_530 - 4096
    assert map_count_max(8192) == 7168


def test_the_system_says_how_many_mappings_there_may_be() -> None:
    assert map_limit() == int(Path("/proc/sys/vm/max_map_count").read_text())


def test_a_system_that_does_not_say_has_the_usual_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_limits, "_MAP_LIMIT_PATH", tmp_path / "none")
    monkeypatch.setattr(process_limits, "_MAPS_PATH", tmp_path / "none")
    assert map_limit() == 65_530
    KeptFiles().check_mapping()


@pytest.mark.parametrize(
    ("descriptors", "maps", "setting"),
    [
        (1024, 65_530, "ulimit -n is 1024"),
        (1_000_000, 65_530, "sysctl vm.max_map_count is 65530"),
    ],
)
def test_the_narrower_limit_is_named(
    monkeypatch: pytest.MonkeyPatch, descriptors: int, maps: int, setting: str
) -> None:
    monkeypatch.setattr(process_limits, "descriptor_limits", lambda: DescriptorLimits(descriptors))
    monkeypatch.setattr(process_limits, "map_limit", lambda: maps)
    limit = kept_limit()
    assert limit.setting == setting
    assert is_near(limit.count, limit)
    assert not is_near(limit.count // 2, limit)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[Path]]:
    paths = [tmp_path / str(number) for number in range(40)]
    for path in paths:
        DISK.close(DISK.create(path, SIZE))
    count = len(KEPT_FILES)
    yield paths
    assert len(KEPT_FILES) == count


@pytest.mark.own_process
def test_kept_files_leave_descriptors_for_connections(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_limits, "descriptor_limits", lambda: DescriptorLimits(48))
    monkeypatch.setattr(DescriptorLimits, "shared_end", sys.maxsize)
    monkeypatch.setattr(DescriptorLimits, "kind_max", 30)
    opened: list[int] = []
    with raises(OSError, errno=errno.EMFILE):
        opened.extend(DISK.open_kept(path, writable=True) for path in files)
    assert 0 < len(opened) <= 30
    assert KEPT_FILES.is_busy
    # Others still get one.
    DISK.close(DISK.open(files[-1], writable=False))
    for descriptor in opened:
        DISK.close(descriptor)
    assert not KEPT_FILES.is_busy


def test_a_kept_file_does_not_take_one_of_the_last_descriptors(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_limits, "descriptor_limits", lambda: DescriptorLimits(3))
    with raises(OSError, errno=errno.EMFILE):
        DISK.open_kept(files[0], writable=True)


def test_kept_files_leave_mappings_for_memory(
    files: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit = tmp_path / "max_map_count"
    now = Path("/proc/self/maps").read_bytes().count(b"\n")
    limit.write_text(str((now + 20) * 8 // 7))
    monkeypatch.setattr(process_limits, "_MAP_LIMIT_PATH", limit)
    monkeypatch.setattr(KEPT_FILES, "_counted_at", -1024)
    refused_count = KEPT_FILES.refused_count
    opened = [DISK.open_kept(path, writable=True) for path in files]
    mappings: list[mmap.mmap] = []
    with raises(OSError, errno=errno.ENOMEM):
        mappings.extend(DISK.map(each, SIZE, writable=True) for each in opened)
    assert 10 < len(mappings) < 30
    assert KEPT_FILES.refused_count == refused_count + 1
    assert KEPT_FILES.is_busy
    # An operator raises the limit while the process runs.
    limit.write_text("65530")
    mappings.append(DISK.map(opened[-1], SIZE, writable=True))
    mappings.clear()
    for descriptor in opened:
        DISK.close(descriptor)
    monkeypatch.setattr(KEPT_FILES, "_counted_at", -1024)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EMFILE, "raise ulimit -n"),
        (errno.ENFILE, "raise ulimit -n"),
        (errno.ENOMEM, "raise sysctl vm.max_map_count"),
        (errno.ENOSPC, None),
    ],
)
def test_a_shortage_has_a_remedy(number: int, remedy: str | None) -> None:
    assert shortage_remedy(OSError(number, "no")) == remedy
