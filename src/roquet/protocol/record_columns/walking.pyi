from roquet.protocol.record_columns.arrays import Bytes

def walk_records(
    data: Bytes, position: int, end: int, base: int | None = None
) -> tuple[bytearray, int]: ...
