"""What is done for each message of a request: its bytes on the way out, its receipt on the way back.

What is in them is decided elsewhere, once for all of them: in `outgoing.py` and `sending.py`.
"""

from roquet.protocol.messages.batch_writing cimport BatchBody

from roquet.client.producer.receipt import SendReceipt

cdef object _SendReceipt = SendReceipt


def batch_body(messages):
    """Of messages that are ready. Raises TooLarge or BadMessage."""
    cdef BatchBody batch = BatchBody()
    for ready in messages:
        message = ready.message
        batch.add(message.flag, message.body, ready.properties)
    return batch.written()


def stored_receipts(messages, queue, offset_ids, header):
    """One for each message, at offsets that follow each other from that of the header on."""
    offset = header.queue_offset
    transaction_id = header.transaction_id
    recall_handle = header.recall_handle
    region = header.region_id
    is_traced = header.is_traced is not False
    cdef list made = []
    for ready, offset_id in zip(messages, offset_ids, strict=True):
        made.append(
            _SendReceipt(
                ready.message_id,
                queue,
                offset,
                offset_id,
                transaction_id,
                recall_handle,
                region,
                is_traced,
            )
        )
        offset += 1
    return made
