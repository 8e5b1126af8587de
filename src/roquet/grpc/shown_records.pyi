from collections.abc import Sequence

def shown_records(
    records: list[bytes],
    times: Sequence[int],
    topic: bytes,
    receipt: bytes,
    tags: frozenset[bytes] | None,
    attempts_max: int,
) -> tuple[list[bytes | None], int]: ...
