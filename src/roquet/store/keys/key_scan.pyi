from mmap import mmap

def scan_keys(
    buffer: bytes | memoryview | mmap, base: int, physical_offsets: list[int], with_tags: bool
) -> tuple[bytes, list[int]]: ...
