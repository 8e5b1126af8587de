"""How long another process has been at work, as the kernel counts it."""

import os
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Behind the name, which may have spaces: the 14th and 15th field of the line.
_OWN_FIELD: Final = 11
_KERNEL_FIELD: Final = 12


def work_s(process_id: int) -> float:
    """In seconds of one core, so that it does not matter who else is at work."""
    _, _, behind_name = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")
    fields = behind_name.split()
    return (int(fields[_OWN_FIELD]) + int(fields[_KERNEL_FIELD])) / _TICKS_PER_S
