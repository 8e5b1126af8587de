"""What the store costs, next to the floor: a plain `file.write` or `file.read` of the same bytes.

Process time on one core, best of several rounds, because other programs use the machine too;
numbers are ratios, goals are for an idle core. Only sync flush is measured by the wall clock,
since it waits for the disk.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, repeat
from pathlib import Path
from tempfile import mkdtemp
from threading import Event
from time import perf_counter, process_time, sleep

from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.flushing import NoListener
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits

ROUNDS = 40
RECOVERED_SIZE = 64 << 20
COUNT = 1024
QUEUES = 8
BATCH = 32
WAITING = 64
SYNC_ROUNDS = 200
SLOW_SYNC_S = 0.0005

BODIES = {size: bytes(size) for size in (128, 1024)}
HOST = pack_host("127.0.0.1", 10911)
PROPERTIES = (
    b"KEYS\x01order-000017\x02UNIQ_KEY\x010A0907010000000000000000000000FF\x02"
    b"TAGS\x01paid\x02CLUSTER\x01DefaultCluster"
)


def main() -> None:
    directory = Path(mkdtemp(prefix="roquet-bench-"))
    try:
        print(f"{'per message':44}{'us':>8}{'goal':>8}{'floor':>8}")
        for size in (128, 1024):
            print_appends(directory, size)
        print_reads(directory)
        print_index(directory)
        print(f"\n{'a second':44}{'':>8}{'goal':>8}{'floor':>8}")
        for size in (128, 1024):
            print_recovery(directory, size)
        print_sync_flush(directory)
    finally:
        shutil.rmtree(directory)


def print_appends(directory: Path, size: int) -> None:
    drafts = [draft(size, number % QUEUES) for number in range(COUNT)]
    in_one_queue = [draft(size, 0) for _ in range(COUNT)]
    batches = [DraftBatch(in_one_queue[start : start + BATCH]) for start in range(0, COUNT, BATCH)]
    floor = write_floor(directory, drafts[0].size)
    with opened(directory, index_keys=False) as store:
        cost = best(lambda: deque(map(draft, repeat(size, COUNT), repeat(0)), 0))
        print_line(f"{size} bytes: draft of a record", cost)
        cost = best(lambda: deque(map(store.append, drafts), 0))
        print_line(f"{size} bytes: append and queue entry", cost, 4.0, floor)
        cost = best(lambda: deque(map(store.append_batch, batches), 0))
        print_line(f"{size} bytes: append in batches of {BATCH}", cost, 2.5, floor)


def print_reads(directory: Path) -> None:
    with opened(directory, index_keys=False) as store:
        for number in range(32 * COUNT):
            store.append(draft(128, number % QUEUES))
        limits = QueueReadLimits(BATCH, 1 << 20)
        floor = read_floor(directory, draft(128, 0).size)
        offsets = range(0, COUNT, BATCH)
        cost = best(lambda: [store.read("BenchTopic", 3, each, limits) for each in offsets])
        print_line(f"128 bytes: read, {BATCH} at once, of {QUEUES} queues", cost, 0.8, floor)
    for size in (128, 1024):
        print_compared_reads(directory, size)


def print_compared_reads(directory: Path, size: int) -> None:
    """Of a store that was opened again: all of it comes from disk, and is compared."""
    store = MessageStore.open(config(directory, index_keys=False), SystemClock(), SystemDisk())
    for number in range(QUEUES * COUNT):
        store.append(draft(size, number % QUEUES))
    store.close()
    limits = QueueReadLimits(BATCH, 1 << 20)

    def read(store: MessageStore) -> None:
        for offset in range(0, COUNT, BATCH):
            store.read("BenchTopic", 3, offset, limits)

    for name, check_reads in (("as they are", False), ("compared", True)):
        changed = config(directory, index_keys=False, check_reads=check_reads)
        store = MessageStore.open(changed, SystemClock(), SystemDisk())
        cost = best(partial(read, store))
        store.close()
        print_line(f"{size} bytes: read from disk, {name}", cost)
    shutil.rmtree(directory / "store")


def print_index(directory: Path) -> None:
    drafts = [draft(128, number % QUEUES) for number in range(COUNT)]
    with opened(directory) as store:
        with_keys = best(lambda: deque(map(store.append, drafts), 0))
    with opened(directory, index_keys=False) as store:
        without = best(lambda: deque(map(store.append, drafts), 0))
    print_line("two keys into the index", with_keys - without)


def print_recovery(directory: Path, size: int) -> None:
    """After a crash, without a checkpoint: everything has to be read."""
    root = directory / "store"
    store = MessageStore.open(config(directory), SystemClock(), SystemDisk())
    # Enough to outweigh what an opening costs that has nothing to read.
    numbers = count()
    while store.log_end < RECOVERED_SIZE:
        store.append(draft(size, next(numbers) % QUEUES))
    rate = 0.0
    for _ in range(ROUNDS):
        store.close()
        (root / "abort").touch()
        (root / "checkpoint").unlink()
        start = process_time()
        store = MessageStore.open(config(directory), SystemClock(), SystemDisk())
        rate = max(rate, store.log_end / (process_time() - start) / 1e6)
    store.close()
    shutil.rmtree(root)
    print(f"{f'{size} bytes: recovery, MB/s':44}{rate:8.0f}{300:8}")


def print_sync_flush(directory: Path) -> None:
    for name, disk in (("real disk", SystemDisk()), ("sync of 0.5 ms", SlowDisk())):
        done = Done()
        store = MessageStore.open(
            config(directory, flush_mode=FlushMode.SYNC), SystemClock(), disk, done
        )
        store.start()
        drafts = [draft(128, number % QUEUES) for number in range(WAITING)]
        start = perf_counter()
        for _ in range(SYNC_ROUNDS):
            done.expect(store.log_end + WAITING * drafts[0].size)
            for each in drafts:
                store.append(each)
            done.event.wait()
        rate = SYNC_ROUNDS * WAITING / (perf_counter() - start) / 1000
        store.close()
        shutil.rmtree(directory / "store")
        goal = 50 if isinstance(disk, SlowDisk) else ""
        print(f"{f'sync flush, {WAITING} waiting, {name}, thousands':44}{rate:8.0f}{goal:>8}")


class SlowDisk(SystemDisk):
    def sync(self, descriptor: int) -> None:  # noqa: ARG002
        sleep(SLOW_SYNC_S)


class Done(NoListener):
    """Sets its event when the log is safe up to a place."""

    def __init__(self) -> None:
        self.event = Event()
        self._wanted = 0

    def expect(self, end: int) -> None:
        self.event.clear()
        self._wanted = end

    def flushed(self, end: int) -> None:
        if end >= self._wanted:
            self.event.set()


def draft(size: int, queue_id: int) -> RecordDraft:
    return RecordDraft(
        queue_id=queue_id,
        flag=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        born_host=HOST,
        store_host=HOST,
        body=BODIES[size],
        topic=b"BenchTopic",
        properties=PROPERTIES,
        has_checksum=True,
    )


def config(directory: Path, **changes: object) -> StoreConfig:
    return StoreConfig(
        root=directory / "store",
        index_slot_count=500_000,
        index_entry_count=2_000_000,
        **changes,  # type: ignore[arg-type]
    )


@contextmanager
def opened(directory: Path, **changes: object) -> Iterator[MessageStore]:
    """A new store, closed and removed at the end."""
    store = MessageStore.open(config(directory, **changes), SystemClock(), SystemDisk())
    yield store
    store.close()
    shutil.rmtree(directory / "store")


def write_floor(directory: Path, size: int) -> float:
    record = bytes(size)
    with (directory / "floor").open("wb") as file:
        return best(lambda: deque(map(file.write, repeat(record, COUNT)), 0))


def read_floor(directory: Path, size: int) -> float:
    (directory / "floor").write_bytes(bytes(size * COUNT))
    with (directory / "floor").open("rb") as file:

        def read() -> None:
            file.seek(0)
            for _ in range(COUNT):
                file.read(size)

        return best(read)


def best(run: Callable[[], object]) -> float:
    """Microseconds for one of `COUNT` messages."""
    shortest = float("inf")
    for _ in range(ROUNDS):
        start = process_time()
        run()
        shortest = min(shortest, process_time() - start)
    return shortest / COUNT * 1e6


def print_line(name: str, cost_us: float, goal: float | None = None, floor: float = 0.0) -> None:
    print(f"{name:44}{cost_us:8.2f}{goal or '':>8}{f'{floor:.2f}' if floor else '':>8}")


if __name__ == "__main__":
    main()
