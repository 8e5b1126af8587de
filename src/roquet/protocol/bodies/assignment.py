"""Queues that the broker deals out to consumers, and how they then get messages (400-402)."""

from enum import StrEnum

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.queue_table import MessageQueue
from roquet.protocol.fields import Int32


class MessageRequestMode(StrEnum):
    PULL = "PULL"
    POP = "POP"


class AssignmentQuery(Body, kw_only=True):
    """Request 400."""

    client_id: str
    consumer_group: str
    message_model: str | None = None
    strategy_name: str | None = None
    topic: str


class QueueAssignment(Body, kw_only=True):
    attachments: dict[str, str] | None = None
    message_queue: MessageQueue
    mode: str = always(MessageRequestMode.PULL)


class QueueAssignments(Body, kw_only=True):
    """Reply to 400."""

    message_queue_assignments: list[QueueAssignment] = always([])


class RequestModeSetting(Body, kw_only=True):
    """Request 401."""

    consumer_group: str
    mode: str = always(MessageRequestMode.PULL)
    pop_share_queue_num: Int32 = always(0)
    topic: str


class RequestModeTable(Body, kw_only=True):
    """Reply to 402: topic -> group -> setting."""

    message_request_mode_map: dict[str, dict[str, RequestModeSetting]] = always({})
