def found_reply(
    opaque: int,
    broker_id: int,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    records: bytes,
) -> bytes: ...
