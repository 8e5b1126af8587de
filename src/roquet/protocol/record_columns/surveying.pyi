from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roquet.protocol.record_columns.arrays import Bytes, Positions

COMMON: Final[int]
UNCOMMON: Final[int]

CHECK_BODY_CRC: Final[int]
CHECK_TOPIC_TEXT: Final[int]
CHECK_PROPERTY_TEXT: Final[int]

def survey_records(
    data: Bytes,
    starts: Positions,
    topics: frozenset[bytes] | None,
    checks: int,
    numbers: list[tuple[int, npt.NDArray[Any]]],
    spans: npt.NDArray[np.int32],
) -> bytes: ...
