import numpy as np
import numpy.typing as npt

from roquet.protocol.record_columns.arrays import Bytes, RowBounds, Spans

class Texts:
    def __init__(self, offsets: RowBounds, joined: Bytes) -> None: ...

class NamedTexts:
    def __init__(self, name: bytes, values: Texts) -> None: ...

class Maps:
    def __init__(self, spans: Spans, names: Texts, values: Texts) -> None: ...

class RowWriter:
    def __init__(
        self,
        bodies: Texts,
        flags: npt.NDArray[np.int32] | None,
        properties: Texts | Maps | None,
        named: list[NamedTexts],
    ) -> None: ...
    def sizes(self, size_max: int) -> bytes: ...
    def write(self, first: int, last: int, size: int) -> bytes: ...
