"""Received messages for unit tests of listeners, without a cluster.

    from roquet.testing import received

    def test_an_old_order_is_refused():
        with pytest.raises(DeadLetter):
            bill(received(Message("orders", b"one tea"), retry_count=3))

They have been through the format of a broker's log, as those that a broker delivers.
"""

import os
from typing import Final

from roquet.client.arguments import check_count
from roquet.client.config import ProducerConfig
from roquet.client.producer.outgoing import check_message, property_text, taken
from roquet.client.received import ReceivedMessage, received_of
from roquet.clock import SystemClock
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Message
from roquet.protocol.messages.message_id import UniqueIdMaker

_BROKER_NAME: Final = "broker-a"
_HOST: Final = "127.0.0.1"

_config = ProducerConfig(name_server=f"{_HOST}:9876", group="testing")
_clock = SystemClock()
_ids = UniqueIdMaker(bytes([127, 0, 0, 1]), os.getpid(), salt=0)


def received(message: Message, *, retry_count: int = 0) -> ReceivedMessage:
    """The message as a consumer receives it after it has failed `retry_count` times.

    Raises BadArgument for a message that could not be sent.
    """
    message = taken(message)
    check_message(message, _config)
    check_count("retry_count", retry_count, 0)
    now_ms = _clock.now_ms()
    message_id = message.message_id or _ids.make(now_ms)
    draft = RecordDraft(
        queue_id=0,
        flag=message.flag,
        sys_flag=0,
        born_timestamp=now_ms,
        born_host=pack_host(_HOST, 0),
        store_host=pack_host(_HOST, 10911),
        body=message.body,
        topic=message.topic.encode(),
        properties=property_text(message, message_id, {}, None).encode(),
        reconsume_times=retry_count,
    )
    return received_of(draft.pack(0, 0, now_ms), _BROKER_NAME)
