"""What a broker refuses, and what an operator can get wrong.

RoquetError
├── Refused                     of `net`: costs the request, the peer learns the code
│   ├── BadName                 1   no topic or group may be called that
│   ├── BadClientName           1   no client, or group of producers, is called that
│   ├── BadQueueCount           1   no topic may have that many queues
│   ├── BadAttributes           1   settings of a topic or group cannot be changed like that
│   ├── UnsupportedAttribute    1   an attribute of a topic asks for an unsupported feature
│   ├── BadOffset               1   no position in a queue is negative
│   ├── TooManyGroups           1   one connection cannot be in that many groups
│   ├── NoMoreTopics            1   clients may make no more of them
│   ├── NoMoreGroups            1   clients may make no more of them
│   ├── FiltersOff              1   SQL92 is switched off here
│   ├── BroadcastForbidden      16  the group may not broadcast
│   ├── ClosedTopic             16  only the broker itself writes there
│   ├── BadReceipt              13  what acknowledges a popped message names none
│   ├── TableNotWritten         14  a topic or group cannot be changed, for the log takes nothing
│   ├── NotChangeable           16  no request may change this setting
│   ├── UnknownTopic            17
│   ├── SubscriptionUnreadable  23
│   ├── NotSubscribed           24  the group is not there, or does not read this topic
│   ├── SubscriptionOutdated    25  the broker waits for the heartbeat that brings the newer one
│   ├── UnknownGroup            26
│   └── FilterMissing           27  what heartbeats brought is no filter
└── NoRoomForStore              a new store would not fit its disk
"""

from pathlib import Path

from roquet.errors import RoquetError
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode

_SHOWN_SIZE_MAX = 150  # of what a peer sent: enough for every legal name


class BadName(Refused):
    def __init__(self, name: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR,
            f"{name[:_SHOWN_SIZE_MAX]!r} is not a name: 1 to 127 of letters, digits and %|_-",
        )
        self.name = name


class BadClientName(Refused):
    def __init__(self, name: str, limit: int) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR,
            f"{name[:_SHOWN_SIZE_MAX]!r} has {len(name)} characters, and the name of a client or"
            f" of a group of producers has at most {limit}",
        )
        self.name = name
        self.limit = limit


class BadQueueCount(Refused):
    def __init__(self, count: int, limit: int) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR, f"a topic has 0 to {limit} queues and not {count}"
        )
        self.count = count
        self.limit = limit


class BadAttributes(Refused):
    def __init__(self, reason: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, f"attributes cannot be changed: {reason}")
        self.reason = reason


class UnsupportedAttribute(Refused):
    def __init__(self, topic: str, attribute: str, meaning: str, remedy: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR,
            f"topic {topic[:_SHOWN_SIZE_MAX]!r}: {attribute[:_SHOWN_SIZE_MAX]} ({meaning}) "
            f"is not supported: use {remedy}, or leave the topic to Apache's broker",
        )
        self.topic = topic
        self.attribute = attribute

    def __str__(self) -> str:
        # An operator may read it, too, when a broker does not start.
        return self.remark


class BadOffset(Refused):
    def __init__(self, topic: str, queue_id: int, offset: int) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR, f"queue {queue_id} of {topic!r} has no offset {offset}"
        )
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset


class TooManyGroups(Refused):
    def __init__(self, limit: int) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR, f"a connection can be in {limit} groups and no more"
        )
        self.limit = limit


class NoMoreTopics(Refused):
    def __init__(self, limit: int) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR,
            f"there are {limit} topics, and clients may make no more: ask an operator, or see "
            "autoCreateTopicMax",
        )
        self.limit = limit


class NoMoreGroups(Refused):
    def __init__(self, limit: int) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR,
            f"there are {limit} groups, and clients may make no more: ask an operator, or see "
            "autoCreateGroupMax",
        )
        self.limit = limit


class FiltersOff(Refused):
    def __init__(self) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR, "SQL92 filters are off: see enablePropertyFilter"
        )


class BroadcastForbidden(Refused):
    def __init__(self, group: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, f"group {group!r} may not broadcast")
        self.group = group


class ClosedTopic(Refused):
    def __init__(self, topic: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, f"topic {topic!r} is the system's own")
        self.topic = topic


class NotChangeable(Refused):
    def __init__(self, key: str) -> None:
        super().__init__(
            ResponseCode.NO_PERMISSION,
            f"{key[:_SHOWN_SIZE_MAX]!r} cannot be changed while the broker runs",
        )
        self.key = key


class TableNotWritten(Refused):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"{name[:_SHOWN_SIZE_MAX]!r} is not changed, because the log takes nothing: {reason}",
        )
        self.name = name
        self.reason = reason


class BadReceipt(Refused):
    def __init__(self, text: str) -> None:
        super().__init__(
            ResponseCode.MESSAGE_ILLEGAL,
            f"{text[:_SHOWN_SIZE_MAX]!r} is not the receipt of a popped message, which has eight"
            " items, as in '17 1794934487260 15000 0 0 broker-a 3 18'",
        )
        self.text = text


class UnknownTopic(Refused):
    def __init__(self, topic: str) -> None:
        super().__init__(
            ResponseCode.TOPIC_NOT_EXIST, f"topic {topic[:_SHOWN_SIZE_MAX]!r} does not exist"
        )
        self.topic = topic


class UnknownGroup(Refused):
    def __init__(self, group: str) -> None:
        super().__init__(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
            f"consumer group {group[:_SHOWN_SIZE_MAX]!r} does not exist",
        )
        self.group = group


class SubscriptionUnreadable(Refused):
    def __init__(self, reason: str) -> None:
        super().__init__(ResponseCode.SUBSCRIPTION_PARSE_FAILED, reason)
        self.reason = reason


class NotSubscribed(Refused):
    def __init__(self, group: str, topic: str) -> None:
        super().__init__(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, f"group {group!r} has not subscribed to {topic!r}"
        )
        self.group = group
        self.topic = topic


class SubscriptionOutdated(Refused):
    def __init__(self, group: str, topic: str) -> None:
        super().__init__(
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
            f"the newest subscription of group {group!r} to {topic!r} has not arrived",
        )
        self.group = group
        self.topic = topic


class FilterMissing(Refused):
    def __init__(self, group: str, topic: str) -> None:
        super().__init__(
            ResponseCode.FILTER_DATA_NOT_EXIST, f"group {group!r} has no filter for {topic!r}"
        )
        self.group = group
        self.topic = topic


class NoRoomForStore(RoquetError):
    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(
            f"there is no room for a new store on the disk of {directory}: {reason}; make room,"
            " name another directory (--dir), or set a smaller mappedFileSizeCommitLog"
        )
        self.directory = directory
        self.reason = reason
