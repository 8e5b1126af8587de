from mmap import mmap

class LogTail:
    end: int
    synced_end: int
    last_store_timestamp: int
    confirmed_end: int
    mapping: mmap | None
    file_start: int
    used_end: int

class QueueTail:
    min_offset: int
    max_offset: int
    mapping: mmap | None
    position: int
    reserved_position: int
