from mmap import mmap

def put_entries(
    buffer: bytearray | mmap,
    slot_count: int,
    first: int,
    begin_timestamp: int,
    packed_keys: bytes,
) -> int: ...
