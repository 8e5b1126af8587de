"""How records of the journal are written, as `journal` draws them: tags, bodies and properties.

Nearly all of them are of pops and acks, and go where there is room: `record_texts` writes these
into the files at once, from texts that are cut here from a record of each kind. Whatever else
there is to write, or to create, takes the way of every message. Both ways write the same bytes.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

import msgspec

from roquet.broker.messages.appending import refusal
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.record_texts import RecordTexts
from roquet.clock import Clock
from roquet.protocol.bodies.body import Body, write_body
from roquet.protocol.bodies.pop import AckBody, CheckPointBody
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Property
from roquet.protocol.names import revive_topic
from roquet.store.errors import StoreUnavailable
from roquet.store.message_store import MessageStore

CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
# Where we write. Apache uses eight, and what it left in the others is read.
JOURNAL_QUEUE_ID: Final = 0
# The property of a record that has where a group goes on in its queue.
NEXT: Final = "POP_NEXT"

# Stands where a number goes in the text of a record.
_MARK: Final = 1_999_999_999
# Members before such numbers. No name of a group or topic looks like one: its quotes are escaped.
_POP_MEMBERS: Final = ('"d":[', '"it":', '"n":', '"pt":', '"q":', '"reviveTime":', '"so":')
_ACK_MEMBERS: Final = ('"ao":', '"pt":', '"q":', '"so":')
_ACKS_MEMBERS: Final = ('"aol":[', *_ACK_MEMBERS[1:])


class JournalForm(msgspec.Struct, frozen=True):
    """What all records have in common."""

    cluster_name: str
    broker_name: str
    store_host: bytes
    has_checksum: bool


class Written(NamedTuple):
    """The offset of a record in its queue of the journal, and its end in the log."""

    offset: int
    end: int


@final
class JournalWriter:
    """Belongs to the event loop. Everything raises Refused."""

    def __init__(self, store: MessageStore, clock: Clock, form: JournalForm) -> None:
        self._store = store
        self._clock = clock
        self._form = form
        self._topic = revive_topic(form.cluster_name).encode()

    def texts(self) -> RecordTexts | None:
        """None if every record takes the way of all messages: without a checksum after them, the
        properties that `record_texts` writes would end in a separator."""
        if not self._form.has_checksum:
            return None
        draft = self._draft(0, 0, b"", b"")
        return RecordTexts(self._store.fast_appends, draft, CutTexts(self._form))

    def write_acks(self, queue_id: int, key: PopKey, offsets: Sequence[int]) -> Written:
        """These messages of a check point, which is in this queue of the journal, are done."""
        tag = ACK_TAG if len(offsets) == 1 else BATCH_ACK_TAG
        return self.write(queue_id, tag, _ack_body(self._form, key, offsets))

    def write(self, queue_id: int, tag: str, body: Body, next_offset: int | None = None) -> Written:
        now_ms = self._clock.now_ms()
        text = _properties(tag, now_ms, next_offset)
        try:
            appended = self._store.append(self._draft(queue_id, now_ms, write_body(body), text))
        except (TooLarge, StoreUnavailable) as error:
            raise refusal(error) from None
        return Written(appended.queue_offset, appended.physical_offset + appended.size)

    def _draft(self, queue_id: int, now_ms: int, body: bytes, properties: bytes) -> RecordDraft:
        form = self._form
        return RecordDraft(
            queue_id=queue_id,
            flag=0,
            sys_flag=0,
            born_timestamp=now_ms,
            born_host=form.store_host,
            store_host=form.store_host,
            body=body,
            topic=self._topic,
            properties=properties,
            has_checksum=form.has_checksum,
        )


@final
class CutTexts:
    """Records of each kind without their numbers: the texts before, between and after them."""

    def __init__(self, form: JournalForm) -> None:
        self._form = form
        names = f"{Property.TIMER_DELIVER_MS}\x01", f"{NEXT}\x01"
        text = _properties(CHECK_POINT_TAG, _MARK, _MARK)
        self.pop_properties: Final = _cut(text, names)[:2]
        self.ack_properties: Final = _cut(_properties(ACK_TAG, _MARK, None), names[:1])[0]
        self.acks_properties: Final = _cut(_properties(BATCH_ACK_TAG, _MARK, None), names[:1])[0]

    def pop_pieces(self, queue: QueueOfGroup) -> list[bytes]:
        """Around differences, invisible time, count, pop time, queue, time of return, start."""
        body = check_point_body(self._form, _marked(queue), (), _MARK)
        body.differences, body.count, body.revive_time = [_MARK], _MARK, _MARK
        return _cut(write_body(body), _POP_MEMBERS)

    def ack_pieces(self, queue: QueueOfGroup) -> list[bytes]:
        """Around the offset, pop time, queue and start."""
        return _cut(write_body(_ack_body(self._form, _marked(queue), [_MARK])), _ACK_MEMBERS)

    def acks_pieces(self, queue: QueueOfGroup) -> list[bytes]:
        """The same around several offsets."""
        body = _ack_body(self._form, _marked(queue), ())
        body.ack_offsets = [_MARK]
        return _cut(write_body(body), _ACKS_MEMBERS)


def _marked(queue: QueueOfGroup) -> PopKey:
    return PopKey(queue._replace(queue_id=_MARK), _MARK, _MARK)


def _cut(text: bytes, names: Sequence[str]) -> list[bytes]:
    """Around the marks after these, which come in this order."""
    pieces: list[bytes] = []
    for name in names:
        before, found, text = text.partition(f"{name}{_MARK}".encode())
        assert found, f"no record has its number after {name!r}"
        pieces.append(before + name.encode())
    return [*pieces, text]


def _properties(tag: str, now_ms: int, next_offset: int | None) -> bytes:
    # Apache takes the second for the time at which a timer was due, and from it learns how far the
    # journal is in time. A key would be filed, and nothing ever asks for one of these records.
    text = f"{Property.TAGS}\x01{tag}\x02{Property.TIMER_DELIVER_MS}\x01{now_ms}"
    return (text if next_offset is None else f"{text}\x02{NEXT}\x01{next_offset}").encode()


def check_point_body(
    form: JournalForm, key: PopKey, offsets: Sequence[int], invisible_ms: int
) -> CheckPointBody:
    queue, start_offset, pop_time_ms = key
    return CheckPointBody(
        broker_name=form.broker_name,
        consumer_group=queue.group,
        differences=[offset - start_offset for offset in offsets],
        invisible_time=invisible_ms,
        count=len(offsets),
        pop_time=pop_time_ms,
        queue_id=queue.queue_id,
        revive_time=pop_time_ms + invisible_ms,
        start_offset=start_offset,
        topic=queue.topic,
    )


def _ack_body(form: JournalForm, key: PopKey, offsets: Sequence[int]) -> AckBody:
    queue, start_offset, pop_time_ms = key
    body = AckBody(
        broker_name=form.broker_name,
        consumer_group=queue.group,
        pop_time=pop_time_ms,
        queue_id=queue.queue_id,
        start_offset=start_offset,
        topic=queue.topic,
    )
    if len(offsets) == 1:
        body.ack_offset = offsets[0]
    else:
        body.ack_offsets = list(offsets)
    return body
