"""Messages with a delivery time of their own, called back before it, as 5.x clients ask for it.

The reply to such a send has a handle. A recall stores one more timer for the same second, with the
key of the message that is not to be delivered: Apache 5.x does the same, so either broker may take
over. This mark has the body "0" and the tags _RECALL_TAG_, and is never delivered itself.
"""

from typing import Final, NamedTuple

from roquet.broker.broker import Broker
from roquet.broker.delays.postponing import TIMER_DELAY_MS_MAX, append_waiting, postponed
from roquet.broker.messages.appending import NewMessage
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.properties import properties_text, property_of
from roquet.protocol.messages.recall_handle import RecallHandle
from roquet.protocol.names import RETRY_PREFIX

_RECALL_TAGS: Final = "_RECALL_TAG_"
_RECALL_BODY: Final = b"0"


class Recalled(NamedTuple):
    """When the log is safe up to `end`, the message is not delivered any more."""

    message_id: str
    end: int


def handle_of(waiting: NewMessage, broker_name: str) -> str | None:
    """What a message that waits can be recalled with; None for one with a delay level."""
    out_ms = property_of(waiting.properties, Property.TIMER_OUT_MS)
    topic = property_of(waiting.properties, Property.REAL_TOPIC)
    message_id = property_of(waiting.properties, Property.UNIQUE_KEY)
    if not out_ms or not topic or not message_id or topic.startswith(RETRY_PREFIX):
        return None
    return RecallHandle(topic, broker_name, int(out_ms) + 1, message_id).text


def recall(broker: Broker, topic: str, handle_text: str) -> Recalled:
    """The message of the handle is not delivered. Raises Refused.

    Whether it was there is not known, as with Apache: an id that was never sent is recalled, too.
    """
    if not broker.config.recalls:
        raise Refused(ResponseCode.NO_PERMISSION, "recalls are disabled: see recallMessageEnable")
    try:
        handle = RecallHandle.read(handle_text)
    except BadMessage as error:
        raise _illegal(str(error)) from None
    if handle.topic != topic:
        raise _illegal(f"the handle is for topic {handle.topic!r} and not for {topic!r}")
    if handle.broker_name != broker.config.broker_name:
        raise _illegal(f"the handle is for broker {handle.broker_name!r}: recall it there")
    left_ms = handle.time_ms - broker.clock.now_ms()
    if not 0 < left_ms <= TIMER_DELAY_MS_MAX:
        raise _illegal(
            f"the message was due {-left_ms} ms ago" if left_ms <= 0 else "its time is too far away"
        )
    marker = postponed(broker, _marker(broker, handle))
    if marker is None:
        raise _illegal("the message was due just now")
    appended = append_waiting(broker, marker)
    broker.waiting.delays.timers.recall(_key(handle).encode())
    return Recalled(handle.message_id, appended.physical_offset + appended.size)


def _marker(broker: Broker, handle: RecallHandle) -> NewMessage:
    properties = {
        Property.TAGS: _RECALL_TAGS,
        Property.UNIQUE_KEY: handle.message_id,
        Property.TIMER_DELETE_UNIQUE_KEY: _key(handle),
        Property.TIMER_DELIVER_MS: str(handle.time_ms),
    }
    return NewMessage(
        topic=handle.topic,
        queue_id=0,
        body=_RECALL_BODY,
        properties=properties_text(properties),
        born_timestamp=broker.clock.now_ms(),
        born_host=broker.messages.store_host,
        store_host=broker.messages.store_host,
    )


def _key(handle: RecallHandle) -> str:
    return f"{handle.topic}{handle.message_id}"


def _illegal(remark: str) -> Refused:
    return Refused(ResponseCode.ILLEGAL_OPERATION, remark)
