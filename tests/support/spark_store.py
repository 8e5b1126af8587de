"""What format `rocketmq-store` has to give, and what its reader gives without a Spark session."""

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar
from zlib import compress

import pyarrow as pa

from roquet.pipeline.data_sources import RocketmqStoreDataSource
from roquet.protocol.host import pack_host
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.protocol.record_columns import PropertiesForm
from roquet.store.message_store import MessageStore
from roquet.store.offline.reader import StoreReader
from tests.support.drafts import BORN_HOST, draft
from tests.support.fake_clock import FakeClock
from tests.support.inner_parts import log_of
from tests.support.message_rows import rows_in, rows_of

T = TypeVar("T")
Rows = list[dict[str, object]]

TOPICS = ("TopicA", "TopicB")
# Equal hashes: a queue cannot tell them apart.
TAGS = ("Aa", "BB")


def fill_with_everything(store: MessageStore, clock: FakeClock, count: int, seed: int) -> None:
    """Ghosts first, then messages of every kind that a broker stores.

    They have no checksums, so the store must be notified that it writes none.
    """
    chance = Random(seed)
    for number in range(count // 10):
        store.append(draft(b"ghost %d" % number, topic="TopicA", queue_id=number % 2))
    store.delete_topic("TopicA")
    places: list[int] = []
    for number in range(count):
        clock.advance(0.01)
        places.append(_append(store, chance, number, places))


def _append(store: MessageStore, chance: Random, number: int, places: list[int]) -> int:
    topic, queue_id = chance.choice((*TOPICS, "Other")), chance.randrange(2)
    body = chance.randbytes(chance.choice((0, 10, 300, 300, 3000)))
    properties = {
        "TAGS": chance.choice(TAGS),
        "KEYS": f"key-{number}",
        "UNIQ_KEY": f"{number:032X}",
    }
    sys_flag, born_host = 0, BORN_HOST
    match chance.randrange(10):
        case 0:
            body, sys_flag = compress(body), SysFlag.COMPRESSED.value
        case 1:
            born_host = pack_host("::1", 9)
        case 2 if places:
            body += store.record_at(chance.choice(places)) + body
        case 3:
            sys_flag = chance.choice(
                (SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK)
            ).value
        case 4:
            topic = "RMQ_SYS_TRANS_HALF_TOPIC"
        case 5:
            drafts = [
                draft(b"%d in %d" % (each, number), topic=topic, queue_id=queue_id)
                for each in range(3)
            ]
            return store.append_batch(DraftBatch(drafts)).physical_offsets[0]
    return store.append(
        draft(
            body,
            topic=topic,
            queue_id=queue_id,
            properties=properties,
            sys_flag=sys_flag,
            born_host=born_host,
            has_checksum=chance.random() < 0.7,
        )
    ).physical_offset


def flip(store: MessageStore, physical_offset: int) -> None:
    """A bit of the log, as a bad disk would."""
    file = log_of(store).file_at(physical_offset)
    assert file is not None
    file.mapping[physical_offset - file.start] ^= 1


def scalar_rows(
    root: Path, topics: Sequence[str], form: PropertiesForm = PropertiesForm.MAP
) -> Rows:
    """From the queues, one message after the other."""
    with StoreReader.open(root) as reader:
        records = [
            bytes(record)
            for topic in topics
            for queue_id in reader.queues().get(topic, [])
            for record in reader.messages(topic, queue_id)
        ]
    return in_order(rows_of(b"".join(records), form))


def store_batches(root: Path, **options: str) -> Iterator[pa.RecordBatch]:
    """What all tasks give; what Spark sends to them is sent, too."""
    source = RocketmqStoreDataSource({"path": str(root)} | options)
    reader = _sent(source.reader(source.schema()))
    for partition in reader.partitions():
        yield from reader.read(_sent(partition))


def _sent(value: T) -> T:
    sent: T = pickle.loads(pickle.dumps(value))  # noqa: S301  It was made here.
    return sent


def store_rows(root: Path, **options: str) -> Rows:
    return in_order([row for batch in store_batches(root, **options) for row in rows_in(batch)])


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["physicalOffset"], row["queueOffset"]))
