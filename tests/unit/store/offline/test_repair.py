import errno
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from roquet.disk import SystemDisk
from roquet.protocol.messages.record import read_record
from roquet.store.errors import BadStoreDirectory, DamagedRange, StoreInUse
from roquet.store.offline.reader import StoreReader
from roquet.store.offline.repair import Rebuilt, repair
from roquet.store.offline.verify import verify
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.golden_stores import STORE_NAMES, unpack_store
from tests.support.quick_disk import QuickDisk
from tests.support.stores import bodies, crash, open_store, opened

COUNT = 100


def repaired(root: Path) -> Rebuilt:
    return repair(root, FakeClock(), QuickDisk())


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def faults(root: Path) -> list[str]:
    with TemporaryDirectory() as scratch:
        return [str(fault) for fault in verify(root, Path(scratch), SystemDisk()).faults]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that was closed."""
    with opened(tmp_path / "store") as store:
        for number in range(COUNT):
            store.append(
                draft(
                    b"%03d" % number,
                    topic=f"Topic{number % 2}",
                    properties={"TAGS": "a", "KEYS": f"key-{number}"},
                )
            )
    return tmp_path / "store"


@pytest.mark.parametrize("name", STORE_NAMES)
def test_what_is_made_from_the_log_is_what_apache_made(name: str, tmp_path: Path) -> None:
    root = unpack_store(name, tmp_path)
    queues, index = contents(root / "consumequeue"), contents(root / "index")
    repaired(root)
    assert contents(root / "consumequeue") == queues
    # The names say when they were made.
    assert list(contents(root / "index").values()) == list(index.values())


@pytest.mark.parametrize("name", STORE_NAMES)
def test_everything_but_queues_and_index_stays_as_it_is(name: str, tmp_path: Path) -> None:
    root = unpack_store(name, tmp_path)
    before = {path: data for path, data in contents(root).items() if not is_derived(path)}
    repaired(root)
    assert {path: data for path, data in contents(root).items() if not is_derived(path)} == before


def is_derived(path: str) -> bool:
    return path.startswith(("consumequeue/", "index/"))


def test_damaged_queues_and_index_are_recreated(root: Path) -> None:
    queues = contents(root / "consumequeue")
    for path in [*(root / "consumequeue").rglob("*"), *(root / "index").iterdir()]:
        if path.is_file():
            content = bytearray(path.read_bytes())
            content[41] ^= 0xFF
            path.write_bytes(content)
    shutil.rmtree(root / "consumequeue" / "Topic1")
    assert faults(root)
    assert repaired(root) == Rebuilt(COUNT, [], [])
    assert faults(root) == []
    assert contents(root / "consumequeue") == queues
    with opened(root) as store:
        assert bodies(store, "Topic1") == [b"%03d" % number for number in range(1, COUNT, 2)]
        (record,) = store.query("Topic1", "key-77", 10, 0, 2**60).records
        assert read_record(record).body == b"077"


def test_stray_queues_are_gone(root: Path) -> None:
    shutil.copytree(root / "consumequeue" / "Topic0", root / "consumequeue" / "Stray")
    repaired(root)
    assert sorted(path.name for path in (root / "consumequeue").iterdir()) == ["Topic0", "Topic1"]


def test_lost_queues_and_index_are_made_in_the_usual_way(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    repaired(root)
    (queue,) = (root / "consumequeue" / "Topic0" / "0").iterdir()
    (index,) = (root / "index").iterdir()
    assert (queue.stat().st_size, index.stat().st_size) == (6_000_000, 420_000_040)
    assert faults(root) == []


def test_damage_of_the_log_is_reported_and_left_alone(root: Path) -> None:
    with StoreReader.open(root) as reader:
        (entry, after) = reader.entries("Topic0", 0, 3, 2)
    path = root / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[entry.physical_offset + 90] ^= 1
    path.write_bytes(content)
    report = repaired(root)
    (damage,) = report.damages
    assert (damage.start, damage.end) == (entry.physical_offset, entry.physical_end)
    assert isinstance(damage, DamagedRange)
    assert report.record_count == COUNT - 1
    assert path.read_bytes() == content
    with StoreReader.open(root) as reader:
        # The place of the lost message is kept.
        assert reader.entries("Topic0", 0, 4, 1) == [after]


def test_queues_of_messages_that_expired_start_later(root: Path) -> None:
    (root / "commitlog" / f"{0:020d}").unlink()
    with StoreReader.open(root) as reader:
        first = reader.min_offset("Topic0", 0)
        messages = list(reader.messages("Topic0", 0))
    repaired(root)
    assert faults(root) == []
    with StoreReader.open(root) as reader:
        assert reader.min_offset("Topic0", 0) == first > 0
        assert list(reader.messages("Topic0", 0)) == messages


def test_a_store_in_use_is_refused(root: Path) -> None:
    queues = contents(root / "consumequeue")
    with opened(root), pytest.raises(StoreInUse):
        repaired(root)
    assert contents(root / "consumequeue") == queues


def test_the_store_can_be_opened_afterwards(root: Path) -> None:
    repaired(root)
    with opened(root) as store:
        assert store.recovery is not None
        assert store.recovery.was_clean
        assert len(bodies(store, "Topic0")) == COUNT // 2


def test_a_crashed_store_stays_a_crashed_store(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(COUNT):
        store.append(draft(b"%03d" % number))
    crash(store)
    repaired(tmp_path)
    with opened(tmp_path) as store:
        assert store.recovery is not None
        assert not store.recovery.was_clean
        assert len(bodies(store)) == COUNT


def test_what_is_no_store_is_refused_and_not_made_one(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadStoreDirectory):
            repaired(path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_stays_empty(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert repaired(tmp_path) == Rebuilt(0, [], [])
    assert faults(tmp_path) == []


class FullDisk(QuickDisk):
    """Full when the index is made."""

    def allocate(self, descriptor: int, position: int, size: int) -> None:
        if size > 200:
            raise OSError(errno.ENOSPC, "no space")
        super().allocate(descriptor, position, size)


def test_a_full_disk_leaves_everything_as_it_was(root: Path) -> None:
    before = contents(root)
    with pytest.raises(OSError, match="no space"):
        repair(root, FakeClock(), FullDisk())
    assert contents(root) == before
    assert not (root / "repair").exists()


def test_the_remains_of_an_interrupted_repair_are_removed(root: Path) -> None:
    shutil.copytree(root / "consumequeue", root / "repair" / "consumequeue")
    shutil.copytree(root / "index", root / "repair" / "old" / "index")
    repaired(root)
    assert not (root / "repair").exists()
    assert faults(root) == []


class InterruptedDisk(QuickDisk):
    """Loses power at one of the renames that exchange old for new."""

    def __init__(self, count: int) -> None:
        self._rest = count

    def rename(self, source: Path, target: Path) -> None:
        if source.is_dir():
            if self._rest == 0:
                raise OSError(errno.EIO, "power cut")
            self._rest -= 1
        super().rename(source, target)


@pytest.mark.parametrize("count", range(4))
def test_an_interrupted_exchange_loses_nothing(root: Path, count: int) -> None:
    with pytest.raises(OSError, match="power cut"):
        repair(root, FakeClock(), InterruptedDisk(count))
    with opened(root) as store:
        assert len(bodies(store, "Topic0")) == len(bodies(store, "Topic1")) == COUNT // 2
        while not store.file_keys():
            pass
        assert len(store.query("Topic1", "key-77", 10, 0, 2**60).records) == 1


def test_a_timeout_names_the_progress(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        for _ in range(30):
            store.append(draft(properties={"KEYS": "key"}))
    (tmp_path / "scratch").mkdir()
    verified: list[int] = []
    verify(tmp_path / "store", tmp_path / "scratch", SystemDisk(), verified.append)
    made_again: list[int] = []
    repair(tmp_path / "store", FakeClock(), QuickDisk(), made_again.append)
    # Once for their queues, once for their keys.
    assert sum(verified) == sum(made_again) == 60
