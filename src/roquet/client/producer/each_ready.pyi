from collections.abc import Sequence

from roquet.client.producer.outgoing import Ready
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.protocol.headers.messages import SendMessageReplyHeader

def batch_body(messages: Sequence[Ready]) -> bytes: ...
def stored_receipts(
    messages: Sequence[Ready],
    queue: QueueRef,
    offset_ids: Sequence[str],
    header: SendMessageReplyHeader,
) -> list[SendReceipt]: ...
