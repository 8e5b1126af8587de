from roquet.store.write_cursors import LogCursor, QueueCursor

def fast_offset_by_time(
    queue: QueueCursor,
    log: LogCursor,
    max_offset: int,
    timestamp: int,
    *,
    is_upper: bool,
    fresh_from: int,
) -> int | None: ...
