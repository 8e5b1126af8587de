"""Drafts of records, with every member that a test does not care about filled in."""

from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft

BORN_HOST = pack_host("127.0.0.1", 50000)
STORE_HOST = pack_host("127.0.0.1", 10911)


def draft(
    body: bytes = b"hello",
    *,
    topic: str = "TopicA",
    queue_id: int = 0,
    properties: dict[str, str] | None = None,
    sys_flag: int = 0,
    born_host: bytes = BORN_HOST,
    reconsume_times: int = 0,
    has_checksum: bool = True,
) -> RecordDraft:
    texts = [f"{name}\x01{value}" for name, value in (properties or {}).items()]
    return RecordDraft(
        queue_id=queue_id,
        flag=0,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        born_host=born_host,
        store_host=STORE_HOST,
        body=body,
        topic=topic.encode(),
        properties="\x02".join(texts).encode(),
        reconsume_times=reconsume_times,
        has_checksum=has_checksum,
    )
