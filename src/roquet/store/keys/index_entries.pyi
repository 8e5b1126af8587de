from mmap import mmap

def put_entries(
    buffer: bytearray | mmap,
    slot_count: int,
    first: int,
    begin_timestamp: int,
    packed_keys: bytes,
) -> int: ...
def find_entries(
    buffer: bytearray | mmap,
    slot_count: int,
    next_number: int,
    key_hash: int,
    first_ms: int,
    last_ms: int,
    count_max: int,
) -> list[int]: ...
