"""Messages that a consumer could not handle: when they come again, and when they are given up.

Until then they wait longer each time, by delay levels; given up, they are kept in the
dead-letter topic of the group, which nobody reads unless told to.
"""

from typing import Final

from msgspec.structs import replace

from roquet.broker.messages.new_message import NewMessage
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import VERSION_3_4_9
from roquet.protocol.command import Command
from roquet.protocol.messages.message import Property, StoredMessage

DLQ_QUEUE_COUNT: Final = 1
DLQ_QUEUE_ID: Final = 0

_FIRST_LEVEL: Final = 3  # ten seconds, if nobody changed the levels
_AT_ONCE: Final = 0


def retry_count_max(group: GroupConfig, command: Command, asked: int | None) -> int:
    """How often a message is tried again; newer clients may say it themselves."""
    if asked is not None and command.version >= VERSION_3_4_9:
        return asked
    return group.retry_max_times


def next_level(retry_count: int, count_max: int, asked_level: int) -> int | None:
    """The delay level of the next try, None if there is none.

    A consumer may ask for a level; 0 leaves it to the broker, and less than 0 gives up at once.
    """
    if retry_count >= count_max or asked_level < 0:
        return None
    return asked_level or _FIRST_LEVEL + retry_count


def sent_back(message: StoredMessage, topic: str, queue_id: int, level: int | None) -> NewMessage:
    """The message as it comes again, or goes to the dead letters: the same, one try older."""
    properties = message.properties
    return replace(
        NewMessage.copy_of(message),
        topic=topic,
        queue_id=queue_id,
        reconsume_times=message.reconsume_times + 1,
    ).with_properties(
        **{
            Property.DELAY: str(level or _AT_ONCE),
            Property.WAIT: "false",
            # Of a message that comes again these two tell of the first time.
            Property.RETRY_TOPIC: properties.get(Property.RETRY_TOPIC, message.topic),
            Property.ORIGIN_MESSAGE_ID: properties.get(
                Property.ORIGIN_MESSAGE_ID, message.offset_id
            ),
        }
    )
