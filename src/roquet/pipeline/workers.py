"""What this process knows of Spark: how many cores there are to plan for."""

import os
from typing import Final

# Python planners run apart from the JVM and are not told; options can say more.
_CORES_MAX: Final = 64


def core_count() -> int:
    """Of this machine, which in local mode is the cluster."""
    return min(len(os.sched_getaffinity(0)), _CORES_MAX)
