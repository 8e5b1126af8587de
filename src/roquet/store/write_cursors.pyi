from mmap import mmap

from roquet.store.files.mapped_file import MappedFile

class LogCursor:
    end: int
    synced_end: int
    last_store_timestamp: int
    confirmed_end: int
    written_from: int
    files: list[MappedFile]
    file: MappedFile | None
    mapping: mmap | None
    file_start: int
    used_end: int

class QueueCursor:
    min_offset: int
    max_offset: int
    files: list[MappedFile]
    mapping: mmap | None
    position: int
    reserved_position: int
