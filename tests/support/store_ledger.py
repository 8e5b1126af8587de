"""What a store was given, and what it promised: the one side of every check in `store_checks`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import read_record
from roquet.store.appends import Appended, AppendedBatch
from roquet.store.errors import Damage, SyncFailed
from tests.support.log_rebuild import QueueName


class Sent(NamedTuple):
    """A message that the store took."""

    queue: QueueName
    queue_offset: int
    physical_offset: int
    record: bytes

    @property
    def physical_end(self) -> int:
        return self.physical_offset + len(self.record)


@dataclass
class Ledger:
    """A listener that writes everything down."""

    sent: list[Sent] = field(default_factory=list)
    # All before it was promised to survive a power cut.
    flushed_end: int = 0
    failure: SyncFailed | None = None
    flushed_after_failure: list[int] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)

    def flushed(self, end: int) -> None:
        if self.failure is not None:
            self.flushed_after_failure.append(end)
        self.flushed_end = max(self.flushed_end, end)

    def flush_postponed(self, reason: str) -> None:
        pass

    def flush_failed(self, error: SyncFailed) -> None:
        self.failure = error

    def damaged(self, damage: Damage) -> None:
        self.damages.append(damage)

    def took(self, draft: RecordDraft, appended: Appended) -> None:
        self._note(draft, appended.queue_offset, appended.physical_offset, appended.store_timestamp)

    def took_batch(self, drafts: Sequence[RecordDraft], appended: AppendedBatch) -> None:
        for index, draft in enumerate(drafts):
            self._note(
                draft,
                appended.queue_offset + index,
                appended.physical_offsets[index],
                appended.store_timestamp,
            )

    def acknowledged(self) -> list[Sent]:
        return [each for each in self.sent if each.physical_end <= self.flushed_end]

    def _note(
        self, draft: RecordDraft, queue_offset: int, physical_offset: int, timestamp: int
    ) -> None:
        queue = QueueName(draft.topic.decode(), draft.queue_id)
        record = record_of(draft, queue_offset, physical_offset, timestamp)
        self.sent.append(Sent(queue, queue_offset, physical_offset, record))


def record_of(
    draft: RecordDraft, queue_offset: int, physical_offset: int, store_timestamp: int
) -> bytes:
    """The bytes that a draft becomes, made apart from the store."""
    record = bytearray(draft.size)
    draft.write(record, 0, queue_offset, physical_offset, store_timestamp)
    return bytes(record)


def arrived(
    drafts: Sequence[RecordDraft],
    sent: Sequence[Sent],
    found: Mapping[tuple[QueueName, int], bytes],
) -> list[Sent]:
    """Those of `drafts`, handed over behind `sent`, that the store has taken.

    The store chose place and time, and died before it could say so.
    """
    taken: list[Sent] = []
    for draft in drafts:
        queue = QueueName(draft.topic.decode(), draft.queue_id)
        offset = sum(1 for each in (*sent, *taken) if each.queue == queue)
        record = found.get((queue, offset))
        if record is None:
            break
        message = read_record(record)
        place = message.physical_offset
        taken.append(
            Sent(queue, offset, place, record_of(draft, offset, place, message.store_timestamp))
        )
    return taken
