from mmap import mmap

import numpy as np
import numpy.typing as npt

def put_entries(
    buffer: bytearray | mmap,
    slot_count: int,
    first: int,
    begin_timestamp: int,
    hashes: npt.NDArray[np.int32],
    physical_offsets: npt.NDArray[np.int64],
    timestamps: npt.NDArray[np.int64],
) -> int: ...
