"""The command line shows more of this: tests/unit/cli/test_store.py."""

import shutil
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from roquet.disk import SystemDisk
from roquet.protocol.messages.message import SysFlag
from roquet.store.errors import BadStoreDirectory
from roquet.store.message_store import MessageStore
from roquet.store.offline.audit import DIFFERENT_ENTRY
from roquet.store.offline.verify import Verification, verify
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.golden_stores import STORE_NAMES, unpack_store
from tests.support.inner_parts import log_of
from tests.support.other_owner import owned_by_another
from tests.support.stores import crash, open_store, opened

COUNT = 60


def fill(store: MessageStore, count: int = COUNT) -> list[int]:
    return [
        store.append(
            draft(
                b"%03d" % number,
                topic=f"Topic{number % 3}",
                properties={"TAGS": f"tag{number % 4}", "KEYS": f"all key-{number}"},
            )
        ).physical_offset
        for number in range(count)
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that was closed."""
    with opened(tmp_path / "store") as store:
        fill(store)
    return tmp_path / "store"


def verified(root: Path) -> Verification:
    with TemporaryDirectory() as scratch:
        return verify(root, Path(scratch), SystemDisk())


def fault_texts(root: Path) -> list[str]:
    return [str(fault) for fault in verified(root).faults]


def flip(path: Path, position: int, bits: int = 0xFF) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= bits
    path.write_bytes(content)


def files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", STORE_NAMES)
def test_nothing_is_wrong_with_what_apache_left(name: str, tmp_path: Path) -> None:
    result = verified(unpack_store(name, tmp_path))
    assert result.faults == []
    assert min(result.record_count, result.queue_count, result.key_count) > 0


def test_everything_is_counted(root: Path) -> None:
    assert verified(root) == Verification(COUNT, 3, 2 * COUNT, 0, [])


def test_the_holes_of_short_queues_are_not_read(tmp_path: Path) -> None:
    with opened(tmp_path / "store", queue_file_size=20_000_000) as store:
        fill(store)
    with TemporaryDirectory() as scratch:
        tracemalloc.start()
        result = verify(tmp_path / "store", Path(scratch), SystemDisk())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert result.faults == []
    assert peak < 10 << 20


def test_a_state_file_that_cannot_be_read_is_a_fault(root: Path) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_bytes(b'{"topicConfigTable":{')
    (fault,) = fault_texts(root)
    assert fault.startswith("state: config/topics.json: ")


def test_an_empty_store_has_no_faults(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert verified(tmp_path) == Verification(0, 0, 0, 0, [])


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadStoreDirectory):
        verified(tmp_path)


def test_nothing_is_changed(root: Path) -> None:
    flip(root / "consumequeue" / "Topic0" / "0" / f"{0:020d}", 47)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files_in(root)}
    assert verified(root).faults
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files_in(root)}
    assert after == before


def test_a_damaged_record_is_reported_once_with_its_range(root: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "twin") as store:
        offsets = fill(store)
    flip(root / "commitlog" / f"{0:020d}", offsets[4] + 90)
    assert fault_texts(root) == [
        f"log: bytes {offsets[4]} to {offsets[5]}: breaks its checksum",
    ]


@pytest.mark.slow
def test_garbage_over_a_checksum_is_reported(root: Path) -> None:
    log_file = root / "commitlog" / f"{0:020d}"
    content = bytearray(log_file.read_bytes())
    first_size = int.from_bytes(content[:4])
    content[first_size - 20 : first_size] = b"name\x01some values\x02a\x01b"
    log_file.write_bytes(content)
    faults = verified(root).faults
    assert [fault.reason for fault in faults if fault.part == "log"] == ["its checksum is damaged"]


def test_what_another_broker_wrote_needs_no_checksums(root: Path) -> None:
    owned_by_another(root, lambda store: store.append(draft(b"theirs", has_checksum=False)))
    assert fault_texts(root) == []


def test_every_byte_of_an_entry_is_compared(root: Path) -> None:
    path = root / "consumequeue" / "Topic1" / "0" / f"{0:020d}"
    for position in range(20):
        flip(path, 60 + position, 1)
        assert fault_texts(root) == [f"queue Topic1/0: offsets 3 to 3: {DIFFERENT_ENTRY}"], position
        flip(path, 60 + position, 1)
    assert fault_texts(root) == []


def test_a_missing_queue_is_reported(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "Topic2")
    assert fault_texts(root) == [
        "queue Topic2/0: offsets 0 to 9: missing",
        "queue Topic2/0: offsets 10 to 19: missing",
    ]


def test_a_queue_file_of_another_size_is_reported(root: Path) -> None:
    path = root / "consumequeue" / "Topic2" / "0" / f"{200:020d}"
    path.write_bytes(bytes(100))
    assert fault_texts(root) == [
        f"queue Topic2/0: file {path.name}: has 100 bytes, but 200 are configured"
    ]


def test_a_missing_log_file_is_reported(root: Path) -> None:
    (root / "commitlog" / f"{4096:020d}").unlink()
    texts = fault_texts(root)
    assert "log: bytes 4096 to 8192: a file is missing" in texts


def test_bytes_after_the_last_record_are_reported(root: Path) -> None:
    path = max((root / "commitlog").iterdir())
    end = int(path.name) + len(path.read_bytes().rstrip(b"\0"))
    flip(path, 4095)
    assert fault_texts(root) == [
        f"log: bytes {end} to {int(path.name) + 4096}: neither records nor zeros"
    ]


def test_a_record_that_contradicts_its_queue_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        stranger = log_of(store).append(draft(topic="Topic0"), 2, FakeClock().now_ms())
    assert fault_texts(tmp_path) == [
        f"log: record at {stranger}: contradicts the other records of its queue"
    ]


def test_a_torn_tail_of_a_crashed_store_is_no_fault(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    offsets = fill(store)
    file = log_of(store).file_at(offsets[-1])
    assert file is not None
    file.mapping[offsets[-1] - file.start + 90] ^= 1
    crash(store)
    assert fault_texts(tmp_path) == []


def test_a_store_can_be_verified_while_it_is_written(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        store.file_keys()
        fill(store)
        assert fault_texts(tmp_path) == []


def test_keys_that_are_not_filed_yet_are_no_fault(root: Path) -> None:
    _older, newest = files_in(root / "index")
    newest.unlink()
    assert fault_texts(root) == []


@pytest.fixture
def index_file(root: Path) -> Path:
    return files_in(root / "index")[0]


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        (7, "records at"),  # begin timestamp
        (23, "its header does not match its entries"),
        (40 + 3, "its entries are not linked by their hashes"),
        (40 + 50 * 4 + 5 * 20 + 19, "its entries are not linked by their hashes"),
    ],
)
def test_a_flipped_byte_of_the_index_is_reported(
    root: Path, index_file: Path, position: int, reason: str
) -> None:
    flip(index_file, position)
    (text,) = fault_texts(root)
    assert text.startswith("index")
    assert reason in text


def test_an_index_file_that_nothing_was_filed_in_is_no_fault(root: Path, index_file: Path) -> None:
    unused = index_file.with_name(str(int(max(files_in(root / "index")).name) + 1))
    unused.write_bytes(index_file.read_bytes()[:40] + bytes(2600))
    assert fault_texts(root) == []


def test_keys_without_records_are_reported(root: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "other") as store:
        fill(store, 1)
        store.append(draft(b"different", properties={"KEYS": "one"}))
    shutil.rmtree(root / "index")
    shutil.copytree(tmp_path / "other" / "index", root / "index")
    texts = fault_texts(root)
    assert any("keys that no record has: 1" in text for text in texts)


def test_records_in_no_queue_are_right(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store, 5)
        store.append(draft(sys_flag=SysFlag.TRANSACTION_PREPARED.value))
        store.append(draft(sys_flag=SysFlag.TRANSACTION_ROLLBACK.value, properties={"KEYS": "k"}))
    assert fault_texts(tmp_path) == []


def test_a_deleted_topic_is_not_missed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        store.delete_topic("Topic1")
    assert fault_texts(tmp_path) == []


def test_delays_that_are_set_up_otherwise_are_right(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock=clock, delay_levels_ms=(7_000, 9_000)) as store:
        for level in (1, 2, 2, 5):
            store.append(
                draft(
                    topic="SCHEDULE_TOPIC_XXXX",
                    queue_id=min(level, 2) - 1,
                    properties={"DELAY": str(level)},
                )
            )
            clock.advance(1.5)
    assert fault_texts(tmp_path) == []


def test_messages_that_expired_are_not_missed(root: Path) -> None:
    (root / "commitlog" / f"{0:020d}").unlink()
    result = verified(root)
    assert result.faults == []
    assert 0 < result.record_count < COUNT


def test_the_newest_index_file_of_an_open_store_is_left_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fill(store)
    store.file_keys()
    crash(store)
    older, newest = files_in(tmp_path / "index")
    flip(newest, 40)
    assert fault_texts(tmp_path) == []
    flip(older, 40)
    assert fault_texts(tmp_path) == [
        f"index {older.name}: file: its entries are not linked by their hashes"
    ]
