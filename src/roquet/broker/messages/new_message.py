"""A message on its way into the store that is more than a plain send.

Delays, retries and transactions take a message, change where it goes and what it carries, and
store the result. A plain send makes its record at once and never comes here.
"""

from typing import Self

import msgspec
from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.messages.appending import append_draft, refusal
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.properties import parse_properties, properties_text
from roquet.store.appends import Appended


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a record holds but what the append assigns."""

    topic: str
    queue_id: int
    body: bytes
    properties: str
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    @classmethod
    def copy_of(cls, message: StoredMessage) -> Self:
        """The same message once more, born when and where it was born, in the same place."""
        return cls(
            topic=message.topic,
            queue_id=message.queue_id,
            body=message.body,
            properties=message.property_text,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_host=message.store_host,
            flag=message.flag,
            sys_flag=message.sys_flag,
            reconsume_times=message.reconsume_times,
        )

    def with_properties(self, **changes: str | None) -> Self:
        """None takes a property away."""
        properties = parse_properties(self.properties)
        for name, value in changes.items():
            if value is None:
                properties.pop(name, None)
            else:
                properties[name] = value
        return replace(self, properties=properties_text(properties))


def append_message(broker: Broker, message: NewMessage) -> Appended:
    """Stores it. Raises Refused; then nothing was stored."""
    try:
        draft = RecordDraft(
            queue_id=message.queue_id,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host,
            store_host=message.store_host,
            body=message.body,
            topic=message.topic.encode(),
            properties=message.properties.encode(),
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
            has_checksum=broker.config.store.write_checksums,
        )
    except TooLarge as error:
        raise refusal(error) from None
    return append_draft(broker, message.topic, draft)
