"""Everything at once for a long time, with little memory: nothing grows."""

import asyncio
import resource
from pathlib import Path
from typing import Final

from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.faults.stage import stage
from tests.support.process_memory import resident_size

_MEGABYTE: Final = 1 << 20
# Of private memory: what is mapped from files belongs to the system.
_MEMORY_MAX: Final = 256 * _MEGABYTE
_GROWTH_MAX: Final = 16 * _MEGABYTE
# Tables and caches have their size by then.
_WARM_UP: Final = 0.3


def soak(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_soak(directory, seed, count))


async def _soak(directory: Path, seed: int, count: int) -> Findings:
    async with stage(directory, seed) as on:
        process = on.broker.process_id
        resource.prlimit(process, resource.RLIMIT_DATA, (_MEMORY_MAX, _MEMORY_MAX))
        await asyncio.sleep(count * _WARM_UP)
        size, descriptors = resident_size(process), _descriptor_count(process)
        await asyncio.sleep(count * (1 - _WARM_UP))
        growth = resident_size(process) - size
        more = _descriptor_count(process) - descriptors
        findings = await on.finished()
    findings.counts["seconds"] = count
    findings.figures["grown by MB"] = growth / _MEGABYTE
    findings.figures["more descriptors"] = float(more)
    if growth > _GROWTH_MAX:
        findings.violations.append(f"the broker has grown by {growth:,} bytes")
    return findings


def _descriptor_count(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


SOAK: Final = Rig("soak", "everything at once under a cap of 256 MB", soak, few=6, many=7200)
