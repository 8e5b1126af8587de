"""One store directory with two owners in turn: our store, and a broker of Apache.

Both are set up with the same, small file sizes, so that every kind of file is rolled. What
either has written is noted down and has to be found by the other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roquet.broker.replication.table_log import LoggedTables, RecordForm, TableLog
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.tables.topics import TopicTable
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.state_file import StateFile
from roquet.store.config import StoreConfig
from roquet.store.message_store import MessageStore
from tests.support.drafts import BORN_HOST
from tests.support.inner_parts import flusher_of
from tests.support.store_checks import END_OF_TIME, everything_in
from tests.support.stores import crash

HOST: Final = "127.0.0.1"
TOPIC: Final = "Shared"
GROUP: Final = "shared-group"
QUEUE_COUNT: Final = 2
COMMITTED_OFFSET: Final = 7
APACHE_SETTINGS: Final = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "1000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "200",
    # Otherwise Apache drops, after a crash, an index file that is not full, and files again only
    # the messages of about its last three seconds.
    "messageIndexSafe": "true",
}


def shared_config(root: Path) -> StoreConfig:
    return StoreConfig(
        root=root,
        commit_log_file_size=65536,
        queue_file_size=1000,
        index_slot_count=100,
        index_entry_count=200,
    )


@dataclass
class Written:
    """A message as its writer knows it; only our store says how long its record is."""

    queue_id: int
    queue_offset: int
    body: bytes
    properties: dict[str, str]
    physical_offset: int
    size: int | None = None

    @property
    def key(self) -> str:
        return self.properties["KEYS"]


@dataclass
class SharedDirectory:
    root: Path
    port: int  # of the broker: the ids of messages name it
    written: list[Written] = field(default_factory=list)
    # Topics whose settings are in the log, as a master with epochs writes them.
    topics_in_log: list[str] = field(default_factory=list)

    def make_settings(self) -> None:
        """What a broker has to know before it serves the messages of a store."""
        clock = SystemClock()
        topics, groups, offsets = TopicTable(clock), GroupTable(clock), OffsetTable()
        topics.find_or_create(TOPIC, QUEUE_COUNT)
        groups.find_or_create(GROUP, may_create=True)
        for queue_id in range(QUEUE_COUNT):
            offsets.commit(GROUP, TOPIC, queue_id, COMMITTED_OFFSET)
        for name, content in (
            ("topics.json", topics.to_bytes()),
            ("subscriptionGroup.json", groups.to_bytes()),
            ("consumerOffset.json", offsets.to_bytes()),
        ):
            file = StateFile(SystemDisk(), self.root / "config" / name)
            file.load(lambda _: None)
            file.save(content)

    @contextmanager
    def opened(self, *, is_killed: bool) -> Iterator[MessageStore]:
        """Our store on the directory, closed at the end or left as a killed process leaves it."""
        store = MessageStore.open(shared_config(self.root), SystemClock(), SystemDisk())
        try:
            yield store
        finally:
            # The next file of the log is made ahead, and left behind by a kill.
            flusher_of(store).tick()
            if is_killed:
                crash(store)
            else:
                store.close()

    def write(self, store: MessageStore, count: int) -> None:
        """Single messages and batches, in all queues, and the change of a table before them."""
        self.topics_in_log.append(f"made-{len(self.topics_in_log)}")
        tables = self._tables(store, epoch=len(self.topics_in_log))
        tables.topics.find_or_create(self.topics_in_log[-1], QUEUE_COUNT)
        while count > 0:
            queue_id = count % QUEUE_COUNT
            drafts = [self._draft(queue_id, index) for index in range(1 if count % 7 else 4)]
            if len(drafts) == 1:
                one = store.append(drafts[0])
                self._note(drafts[0], one.queue_offset, one.physical_offset)
            else:
                many = store.append_batch(DraftBatch(drafts))
                for index, each in enumerate(drafts):
                    place = many.physical_offsets[index]
                    self._note(each, many.queue_offset + index, place)
            count -= len(drafts)

    def wrong_with(self, store: MessageStore) -> list[str]:
        """What our store does not find, or finds otherwise."""
        found = {
            (queue.queue_id, offset): read_record(record)
            for (queue, offset), record in everything_in(store).items()
            if queue.topic == TOPIC
        }
        violations = []
        for each in self.written:
            message = found.pop((each.queue_id, each.queue_offset), None)
            if message is None:
                violations.append(f"{each} is not there")
            elif (message.body, message.physical_offset) != (each.body, each.physical_offset) or (
                not each.properties.items() <= message.properties.items()
            ):
                violations.append(f"{each} became {message}")
            answer = store.query(TOPIC, each.key, 9, 0, END_OF_TIME).records
            if [read_record(record).body for record in answer] != [each.body]:
                violations.append(f"the key of {each} finds {answer}")
        topics = self._tables(store).topics
        unknown = [name for name in self.topics_in_log if name not in topics]
        violations += [f"the log does not know {name}" for name in unknown]
        return violations + [f"nobody wrote {message}" for message in found.values()]

    def count(self, queue_id: int) -> int:
        return sum(1 for each in self.written if each.queue_id == queue_id)

    def _tables(self, store: MessageStore, epoch: int | None = None) -> LoggedTables:
        """Those that the log has; of an epoch, those of its master."""
        clock = SystemClock()
        tables = LoggedTables(
            TopicTable(clock, has_epochs=True), GroupTable(clock, has_epochs=True), OffsetTable()
        )
        form = RecordForm(pack_host(HOST, self.port), has_checksum=True)
        table_log = TableLog(store, tables, form)
        table_log.apply(are_new=False)
        if epoch is not None:
            table_log.lead(epoch)
        return tables

    def _draft(self, queue_id: int, index: int) -> RecordDraft:
        number = len(self.written) + index
        properties = {
            "KEYS": f"key-{number}",
            "TAGS": "red" if number % 3 else "blue",
            # Its second half is no port, so it is not taken for an offset id.
            "UNIQ_KEY": f"7F000001FFFFFFFF{number:016X}",
            "colour of the sea": "grün",
        }
        texts = [f"{name}\x01{value}" for name, value in properties.items()]
        return RecordDraft(
            queue_id=queue_id,
            flag=number,
            sys_flag=0,
            born_timestamp=SystemClock().now_ms(),
            born_host=BORN_HOST,
            store_host=pack_host(HOST, self.port),
            body=b"ours %d " % number * (number % 50 + 1),
            topic=TOPIC.encode(),
            properties="\x02".join(texts).encode(),
            has_checksum=True,
        )

    def _note(self, draft: RecordDraft, queue_offset: int, physical_offset: int) -> None:
        pairs = [text.split("\x01") for text in draft.properties.decode().split("\x02")]
        self.written.append(
            Written(
                draft.queue_id,
                queue_offset,
                bytes(draft.body),
                dict(pairs),
                physical_offset,
                draft.size,
            )
        )
