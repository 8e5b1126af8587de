"""What queues and keys have to be, worked out from the bytes of a log alone.

A second opinion: it shares the reader of records with the store, and nothing else.
"""

from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from roquet.protocol.errors import BadMessage
from roquet.protocol.java_hash import java_hash
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import MAGIC_BLANK, read_record

_PREFIX = Struct(">ii")


class QueueName(NamedTuple):
    topic: str
    queue_id: int


class RebuiltEntry(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int


@dataclass
class Rebuilt:
    queues: dict[QueueName, list[RebuiltEntry]] = field(default_factory=dict)
    # Records by topic and key.
    keys: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)


def rebuilt(root: Path) -> Rebuilt:
    """From a log that is whole: it ends with zeros or with its last file. Raises BadMessage."""
    found = Rebuilt()
    for path in sorted((root / "commitlog").iterdir()):
        content = path.read_bytes()
        position = 0
        while position + _PREFIX.size <= len(content):
            size, magic = _PREFIX.unpack_from(content, position)
            if magic in (MAGIC_BLANK, 0):
                break
            message = read_record(content, position)
            _add(found, message, content[position : position + size])
            position += size
    return found


def _add(found: Rebuilt, message: StoredMessage, record: bytes) -> None:
    queue = found.queues.setdefault(QueueName(message.topic, message.queue_id), [])
    if message.queue_offset != len(queue):
        raise BadMessage(f"{message.physical_offset} is not message {len(queue)} of its queue")
    tags_code = java_hash(message.tags) if message.tags else 0
    queue.append(RebuiltEntry(message.physical_offset, message.size, tags_code))
    for key in message.keys:
        found.keys.setdefault((message.topic, key), []).append(record)
