"""What members of a group tell operators about themselves, in the words of the Java client."""

import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Final

from roquet.client.group.membership import Membership
from roquet.client.queue_ref import QueueRef, wire_queue
from roquet.protocol.bodies.body import QueueTable
from roquet.protocol.bodies.clients import ConsumerRunningInfo, ProcessQueueInfo

# Tools look the version up by its name.
_CLIENT_VERSION: Final = "V4_9_8"


def running_info(
    membership: Membership,
    own_properties: Mapping[str, str],
    queues: Mapping[QueueRef, ProcessQueueInfo],
    *,
    has_stacks: bool,
) -> ConsumerRunningInfo:
    config = membership.config
    properties = {
        "PROP_CONSUMER_START_TIMESTAMP": str(membership.begin_ms),
        "PROP_NAMESERVER_ADDR": "".join(
            f"{address};" for address in membership.instance.names.addresses
        ),
        "PROP_CONSUME_TYPE": membership.consume_type,
        "PROP_CLIENT_VERSION": _CLIENT_VERSION,
        "consumerGroup": membership.group,
        "messageModel": "BROADCASTING" if config.broadcasting else "CLUSTERING",
        "allocateMessageQueueStrategy": config.allocation.name,
        **own_properties,
    }
    return ConsumerRunningInfo(
        properties=properties,
        mq_table=QueueTable({wire_queue(queue): info for queue, info in queues.items()}),
        subscription_set=membership.subscriptions.bodies(),
        jstack=_stacks() if has_stacks else None,
    )


def _stacks() -> str:
    """Where each thread is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001  There is no other way.
    )
