from roquet.protocol.record_columns.arrays import Bytes, Spans

def find_pairs(
    data: Bytes, texts: Spans, names: tuple[bytes, ...], keep_all: bool
) -> tuple[bytearray, bytes, list[bytes]]: ...
