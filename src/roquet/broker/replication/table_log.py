"""Changes of topics and groups, in the log of a master that has epochs.

Messages of a topic that its broker does not know are unreadable. So what a master changes in these
two tables it first appends to its log, as messages of a system topic:

    rmq_sys_roquet_tables   queue 0   changes of topics
                            queue 1   changes of groups

    {"config":{"order":false,"perm":6,...},"name":"orders",
     "version":{"counter":12,"stateVersion":7,"timestamp":1700000000000}}

`config` is what the table has of it from then on, as in its file; without one it was deleted. The
`version` is that of the whole table after the change, and grows from record to record.

A message comes after the record that created its topic, so a replica that has confirmed the message
has the topic. A slave applies the records that arrive; a broker that opens a store, or becomes
master, applies those that its tables do not have yet. What a slave fetches of the master's tables
is compared by version (`tables/versions`).
"""

import logging
from collections.abc import Iterator
from typing import Final, TypeVar, final

import msgspec

from roquet.broker.errors import TableNotWritten
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.tables.topics import TopicTable
from roquet.protocol.bodies.body import Body, DataVersion, read_body, write_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.errors import BadBody, TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import TABLES_TOPIC
from roquet.state_file import StateNotSaved
from roquet.store.errors import StoreUnavailable
from roquet.store.message_store import MessageStore
from roquet.store.replica_log import Grown

log = logging.getLogger(__name__)

TOPICS_QUEUE_ID: Final = 0
GROUPS_QUEUE_ID: Final = 1
# So many of the last records of each queue are read when a store is opened: about a second.
READ_COUNT_MAX: Final = 100_000

_TOPIC: Final = TABLES_TOPIC.encode()
_QUEUES: Final = frozenset(((_TOPIC, TOPICS_QUEUE_ID), (_TOPIC, GROUPS_QUEUE_ID)))


class TopicChange(Body, kw_only=True):
    config: TopicConfig | None = None
    name: str
    version: DataVersion


class GroupChange(Body, kw_only=True):
    config: GroupConfig | None = None
    name: str
    version: DataVersion


C = TypeVar("C", TopicChange, GroupChange)


class LoggedTables(msgspec.Struct):
    """Those that the log has, and the offsets, which go with a topic."""

    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable


class RecordForm(msgspec.Struct, frozen=True):
    """What all records have in common."""

    store_host: bytes
    has_checksum: bool


@final
class TableLog:
    """Belongs to the event loop."""

    def __init__(self, store: MessageStore, tables: LoggedTables, form: RecordForm) -> None:
        self._store = store
        self._tables = tables
        self._form = form
        tables.topics.stored_queue_count = store.queue_count
        # The offset of the next record of each queue that was not read.
        self._next_offsets = {
            queue_id: max(0, store.end_offset(TABLES_TOPIC, queue_id) - READ_COUNT_MAX)
            for queue_id in (TOPICS_QUEUE_ID, GROUPS_QUEUE_ID)
        }
        self._is_written = False
        # After the last change that was written here: what waits for it waits for this.
        self.end = 0

    def lead(self, epoch: int) -> None:
        """This broker is the master of that epoch: from now on it writes what it changes."""
        topics, groups = self._tables.topics, self._tables.groups
        self._is_written = True
        topics.lead(epoch)
        groups.lead(epoch)
        topics.write_ahead = self._write_topic
        groups.write_ahead = self._write_group

    def check(self, name: str) -> None:
        """Raises TableNotWritten if a change of that topic or group would be refused now."""
        try:
            if self._is_written:
                self._store.check()
        except StoreUnavailable as error:
            raise TableNotWritten(name, str(error)) from None

    def grown(self, grown: Grown) -> bool:
        """A slave has more of its master's log; whether its tables should be copied again soon.

        With a topic its offsets go. If the topic was made again since, some of them may be newer
        than that, and the master has them.
        """
        return not _QUEUES.isdisjoint(grown.queues) and self.apply(are_new=True)

    def apply(self, *, are_new: bool, keeps_offsets: bool = False) -> bool:
        """Applies the records that were not read yet; `are_new` if they just arrived.

        Whether offsets were forgotten. Those that did not just arrive leave the table's offsets
        as they are, unless the topic was still in its own.
        """
        have_gone = False
        for physical_offset, body in self._unread(TOPICS_QUEUE_ID):
            topic = _read(TopicChange, physical_offset, body)
            if topic is not None:
                is_gone = self._apply_topic(topic, physical_offset, is_new=are_new)
                if is_gone and not keeps_offsets:
                    self._tables.offsets.forget_topic(topic.name)
                    have_gone = True
        for physical_offset, body in self._unread(GROUPS_QUEUE_ID):
            group = _read(GroupChange, physical_offset, body)
            if group is not None:
                self._tables.groups.apply(group.name, group.config, group.version)
        return have_gone

    def apply_again(self) -> None:
        """The log was cut: the tables go back to its records, as far as it has any."""
        self._tables.topics.forget_version()
        self._tables.groups.forget_version()
        # All records count as news now, also those of topics that were created again since.
        self.apply(are_new=False, keeps_offsets=True)

    def restore_topics(self) -> list[str]:
        """After `apply`, without a table: queues without a record in the log have topics, too."""
        return self._tables.topics.restore(self._store.queues())

    def _apply_topic(self, change: TopicChange, physical_offset: int, *, is_new: bool) -> bool:
        """Whether the topic is gone now, and was not before."""
        if change.config is None:
            try:
                # Whatever the table has: it may have been fetched before the record arrived.
                self._store.delete_topic(change.name, before=physical_offset)
            except StateNotSaved as error:
                log.error("messages of deleted topic %s are still readable: %s", change.name, error)  # noqa: TRY400
        is_news = self._tables.topics.apply(change.name, change.config, change.version)
        return change.config is None and (is_news or is_new)

    def _unread(self, queue_id: int) -> Iterator[tuple[int, bytes]]:
        """The bodies of the records, each with its physical offset."""
        end = self._store.end_offset(TABLES_TOPIC, queue_id)
        # A queue that is shorter than it was has started again.
        start = self._next_offsets[queue_id] if self._next_offsets[queue_id] <= end else 0
        self._next_offsets[queue_id] = end
        for physical_offset, record in self._store.records(TABLES_TOPIC, queue_id, start):
            yield physical_offset, read_record(record).body

    def _write_topic(self, name: str, topic: TopicConfig | None, version: DataVersion) -> None:
        self._write(TOPICS_QUEUE_ID, TopicChange(config=topic, name=name, version=version))

    def _write_group(self, name: str, group: GroupConfig | None, version: DataVersion) -> None:
        self._write(GROUPS_QUEUE_ID, GroupChange(config=group, name=name, version=version))

    def _write(self, queue_id: int, change: TopicChange | GroupChange) -> None:
        """Raises TableNotWritten; then nothing was stored."""
        form = self._form
        try:
            appended = self._store.append(
                RecordDraft(
                    queue_id=queue_id,
                    flag=0,
                    sys_flag=0,
                    born_timestamp=change.version.timestamp,
                    born_host=form.store_host,
                    store_host=form.store_host,
                    body=write_body(change),
                    topic=_TOPIC,
                    properties=b"",
                    has_checksum=form.has_checksum,
                )
            )
        except (TooLarge, StoreUnavailable) as error:
            raise TableNotWritten(change.name, str(error)) from None
        self.end = appended.physical_offset + appended.size
        self._next_offsets[queue_id] = appended.queue_offset + 1


def _read(kind: type[C], physical_offset: int, body: bytes) -> C | None:
    """None for what a later version may have written."""
    try:
        return read_body(kind, body)
    except BadBody as error:
        log.error("skipped an invalid table change at offset %d: %s", physical_offset, error)  # noqa: TRY400
        return None
