from typing import Final

from roquet.protocol.record_columns.arrays import Bytes

CLAIM_SIZE: Final[int]

def walk_records(
    data: Bytes, position: int, end: int, base: int | None = None
) -> tuple[bytearray, int]: ...
def find_claims(data: Bytes, begin: int, end: int, base: int) -> bytearray: ...
