"""Finding a message whose queue entry is damaged: it must lie between its neighbours."""

from typing import Final

from roquet.store.commit_log import CommitLog
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.errors import BadRecord
from roquet.store.log_scan import LogRecord

# At most this much of the log is read for one entry while somebody waits.
SEARCH_SIZE_MAX: Final = 4 << 20


def find_by_neighbours(
    log: CommitLog, queue: ConsumeQueue, offset: int, size_max: int = SEARCH_SIZE_MAX
) -> LogRecord | None:
    """The record of message `offset`, looked for between the records before and after it.

    None if it is not there, or too far to look for.
    """
    before = queue.entry(offset - 1) if offset > queue.min_offset else None
    after = queue.entry(offset + 1)
    start = log.start if before is None or before.is_blank else before.physical_end
    end = log.end if after is None or after.is_blank else after.physical_offset
    if not log.start <= start < end <= log.end or end - start > size_max:
        return None
    try:
        for record in log.scan(start, end):
            if is_message(record, queue, offset):
                return record
    except BadRecord:
        # The record itself is damaged, or a neighbour's entry is wrong too.
        pass
    return None


def is_message(record: LogRecord, queue: ConsumeQueue, offset: int) -> bool:
    """Whether a record is message `offset` of the queue."""
    return (
        record.queue_offset == offset
        and record.queue_id == queue.queue_id
        and record.topic == queue.topic
    )
