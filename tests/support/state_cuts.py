"""A state file that is saved again and again while power fails."""

from pathlib import Path
from random import Random

from roquet.errors import RoquetError
from roquet.state_file import StateFile, StateFileError
from tests.support.faulty_disk import FaultyDisk
from tests.support.power_cut import WatchedDisk

_SAVES = 6
# More than two pages, so that it can be torn.
_STATE_SIZE = 9000


class _BadState(RoquetError):
    pass


def _state_of(content: bytes) -> int:
    number = content[1:2]
    if not number.isdigit() or content != _content_of(int(number)):
        raise _BadState("torn")
    return int(number)


def _content_of(state: int) -> bytes:
    return b"{%b}" % (b"%d" % state * _STATE_SIZE)


def after_state_cuts(directory: Path, seed: int) -> list[str]:
    """What was wrong after a cut before any call to the disk, or between two saves."""
    chance = Random(seed)
    root = directory / "store"
    root.mkdir()
    disk = WatchedDisk(root)
    violations = []
    saved = 0

    def cut() -> None:
        target = directory / f"cut{disk.calls}"
        target.mkdir(exist_ok=True)
        disk.cut_power(target, chance)
        try:
            state = _state_file(FaultyDisk(target), target).load(_state_of) or 0
        except StateFileError as error:
            violations.append(str(error))
        else:
            if state not in (saved, saved + 1):
                violations.append(f"{saved} was saved, {state} is there")

    state_file = _state_file(disk, root)
    state_file.load(_state_of)
    disk.before_call = cut
    for number in range(1, _SAVES + 1):
        state_file.save(_content_of(number))
        saved = number
        cut()
    return violations


def _state_file(disk: FaultyDisk, root: Path) -> StateFile:
    return StateFile(disk, root / "config" / "topics.json")
