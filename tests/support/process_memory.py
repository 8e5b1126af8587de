"""How much memory another process has, as the kernel counts it."""

from pathlib import Path


def resident_size(process_id: int) -> int:
    """In bytes, without what is only mapped from files."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "RssAnon":
            return int(value.split()[0]) * 1024
    raise AssertionError(f"the kernel does not say how large {process_id} is")
