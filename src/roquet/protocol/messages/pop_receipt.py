"""What a client gets with a popped message, and shows when it acknowledges it: POP_CK.

    17 1794934487260 15000 0 0 broker-a 3 18

    start of the check point, time of the pop and time invisible in ms, queue of the journal, kind,
    broker, queue, offset. The kind is 0 for the topic that was asked for, 1 for its retry topic,
    2 for its retry topic of the second form.

It names the message without any memory of the pop: brokers, clients and proxies read it.
"""

import re
from typing import Final, NamedTuple

from roquet.protocol.errors import BadMessage
from roquet.protocol.names import pop_retry_topic

# In place of a queue of the journal, of ordered pops.
ORDERED_QUEUE_ID: Final = 999

_NUMBER: Final = "([0-9]{1,19})"
# Not all numbers of so many digits are a long of Java's.
_NUMBER_MAX: Final = 2**63 - 1
_WORD: Final = "([^ ]*)"
_FORM: Final = re.compile(
    " ".join([_NUMBER] * 4 + [_WORD] * 2 + [_NUMBER] * 2),
)
_SHOWN_SIZE_MAX: Final = 100


class TopicKind:
    """The kinds of topics in receipts."""

    TOPIC: Final = "0"
    RETRY: Final = "1"
    RETRY_V2: Final = "2"


class Receipt(NamedTuple):
    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    kind: str
    broker_name: str
    queue_id: int
    offset: int

    @property
    def text(self) -> str:
        return " ".join(map(str, self))

    @property
    def end_ms(self) -> int:
        """When the message comes again, unless its time was changed."""
        return self.pop_time_ms + self.invisible_ms

    def topic_for(self, group: str, topic: str) -> str:
        """The topic that the message is stored in; `topic` was asked for."""
        if self.kind == TopicKind.TOPIC:
            return topic
        return pop_retry_topic(group, topic, is_v2=self.kind == TopicKind.RETRY_V2)

    @classmethod
    def read(cls, text: str) -> "Receipt":
        """Raises BadMessage."""
        found = _FORM.fullmatch(text)
        if found is None or max(map(int, found.group(1, 2, 3, 4, 7, 8))) > _NUMBER_MAX:
            raise BadMessage(
                f"{text[:_SHOWN_SIZE_MAX]!r} is not the receipt of a popped message, which has"
                " eight items, as in '17 1794934487260 15000 0 0 broker-a 3 18'"
            )
        start, pop_time, invisible, revive_queue, kind, broker_name, queue, offset = found.groups()
        return cls(
            int(start),
            int(pop_time),
            int(invisible),
            int(revive_queue),
            kind,
            broker_name,
            int(queue),
            int(offset),
        )
