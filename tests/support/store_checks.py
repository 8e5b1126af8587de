"""What must hold of a store that was opened again, whatever happened to it before.

Each check returns its violations as texts, none if all is well, so that `test_mutations.py`
can show that it finds what it is for. I1, I2, ... are the invariants they stand for:

    I1  no acknowledged message is lost
    I2  nothing is read that was never sent
    I3  in a queue the order of offsets is the order of sending
    I4  an offset names one message for ever, and there are no holes
    I9  queues and index agree with the log
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from roquet.protocol.errors import BadMessage
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits
from tests.support.log_rebuild import QueueName, RebuiltEntry, rebuilt
from tests.support.store_ledger import Sent

ONE = QueueReadLimits(1, 1 << 30)
END_OF_TIME = 2**62

Found = dict[tuple[QueueName, int], bytes]


def everything_in(store: MessageStore) -> Found:
    """The records that can be read, by queue and offset."""
    found: Found = {}
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            queue = QueueName(topic, queue_id)
            for offset, record in _records(store, queue):
                found[queue, offset] = record
    return found


def wrong_with(
    store: MessageStore, root: Path, sent: Sequence[Sent], promised: Sequence[Sent]
) -> list[str]:
    """All checks at once, for a store whose log is whole up to some point."""
    found = everything_in(store)
    return [
        *lost(found, promised),
        *strangers(found, sent),
        *holes(store, found),
        *not_a_prefix(found, sent),
        *differs_from_log(store, root),
    ]


def lost(found: Found, promised: Iterable[Sent]) -> list[str]:
    """I1."""
    return [
        f"lost {each.queue} offset {each.queue_offset} at {each.physical_offset}"
        for each in promised
        if found.get((each.queue, each.queue_offset)) != each.record
    ]


def strangers(found: Found, sent: Iterable[Sent]) -> list[str]:
    """I2, I3, I4: what is read at an offset is what was sent to it."""
    known = {(each.queue, each.queue_offset): each.record for each in sent}
    return [
        f"{queue} offset {offset} reads {record[:200]!r}"
        for (queue, offset), record in found.items()
        if known.get((queue, offset)) != record
    ]


def holes(store: MessageStore, found: Found) -> list[str]:
    """I4."""
    return [
        f"{topic}/{queue_id} has nothing at {offset}"
        for topic, queue_ids in store.queues().items()
        for queue_id in queue_ids
        for offset in range(store.min_offset(topic, queue_id), store.max_offset(topic, queue_id))
        if (QueueName(topic, queue_id), offset) not in found
    ]


def not_a_prefix(found: Found, sent: Sequence[Sent]) -> list[str]:
    """Of what was not acknowledged any part may be there, as long as it is the first one."""
    is_there = [(each.queue, each.queue_offset) in found for each in sent]
    kept = is_there.index(False) if False in is_there else len(is_there)
    return [
        f"{sent[index].queue} offset {sent[index].queue_offset} is there, number {kept} is not"
        for index in range(kept, len(sent))
        if is_there[index]
    ]


def differs_from_log(store: MessageStore, root: Path) -> list[str]:
    """I9."""
    try:
        log = rebuilt(root)
    except BadMessage as error:
        return [f"the log is damaged: {error}"]
    violations = []
    queues = {
        QueueName(topic, queue_id)
        for topic, queue_ids in store.queues().items()
        for queue_id in queue_ids
    }
    if queues != log.queues.keys():
        violations.append(f"queues {sorted(queues)}, by the log {sorted(log.queues)}")
    for queue, expected in log.queues.items():
        start = store.min_offset(*queue)
        entries = [RebuiltEntry(*each) for each in _entries(store, queue)]
        if entries != expected[start:]:
            violations.append(f"{queue} has {entries}, by the log {expected[start:]}")
    return violations + wrong_answers(store, log.keys)


def wrong_answers(store: MessageStore, keys: dict[tuple[str, str], list[bytes]]) -> list[str]:
    """I9, for the index: whoever asks for a key gets all its messages."""
    while not store.file_keys():
        pass
    violations = []
    for (topic, key), expected in keys.items():
        answer = store.query(topic, key, len(expected) + 1, 0, END_OF_TIME)
        if answer.records != expected:
            violations.append(f"{key} of {topic}: {len(answer.records)} of {len(expected)} found")
    return violations


def _records(store: MessageStore, queue: QueueName) -> Iterable[tuple[int, bytes]]:
    offset = store.min_offset(*queue)
    while offset < store.max_offset(*queue):
        result = store.read(*queue, offset, ONE)
        assert result.next_offset > offset, f"reading {queue} stands still at {offset}"
        offset = result.next_offset
        for record in result.records:
            # What the store says, not the record: they may contradict each other.
            yield offset - 1, record


def _entries(store: MessageStore, queue: QueueName) -> Iterable[tuple[int, int, int]]:
    offset = store.min_offset(*queue)
    while offset < store.max_offset(*queue):
        part = store.entries(*queue, offset, store.max_offset(*queue) - offset)
        yield from part
        offset += len(part)
