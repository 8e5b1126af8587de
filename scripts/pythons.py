"""`make pythons`: the inner loop with the oldest and the newest supported Python of this machine.

Each gets an environment of its own below `build/pythons`, which is kept. A Python counts as
supported if `pyproject.toml` says so; patch releases differ, too, so the oldest one is looked for.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
ENVIRONMENTS: Final = Path("build/pythons")
GOALS: Final = ("check", "unit")
_CLASSIFIER: Final = "Programming Language :: Python :: "
_ANSWER_TIMEOUT_S: Final = 20
# Where version managers keep what they have installed, below a home directory.
_MANAGED: Final = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")
_ABOUT: Final = (
    "import os, sys; print(*sys.version_info[:3], os.path.realpath(sys._base_executable))"
)


class Interpreter(NamedTuple):
    version: tuple[int, ...]
    path: str

    @property
    def name(self) -> str:
        return ".".join(map(str, self.version))


def main() -> int:
    """The number of Pythons with which the inner loop failed."""
    found = chosen(installed(), supported())
    results = {each.name: _run(each) for each in found}
    for name, status in results.items():
        print(f"Python {name}: {'passed' if status == 0 else f'failed ({status})'}")
    return sum(status != 0 for status in results.values())


def supported() -> set[tuple[int, ...]]:
    """Major and minor versions that `pyproject.toml` names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = (each.removeprefix(_CLASSIFIER) for each in project["classifiers"])
    return {tuple(map(int, each.split("."))) for each in names if each[0].isdigit()}


def chosen(found: Iterable[Interpreter], versions: set[tuple[int, ...]]) -> list[Interpreter]:
    """The oldest and the newest; one if there is no other."""
    usable = sorted({each for each in found if each.version[:2] in versions})
    return usable[:1] + usable[1:][-1:]


def newest_of_each(
    found: Iterable[Interpreter], versions: set[tuple[int, ...]]
) -> dict[tuple[int, ...], Interpreter]:
    """The newest patch release of each minor version that is there."""
    usable = sorted({each for each in found if each.version[:2] in versions})
    return {each.version[:2]: each for each in usable}


def installed() -> Iterator[Interpreter]:
    """Every Python 3 on PATH, in the directories of the system and of version managers."""
    directories = [*map(Path, os.get_exec_path()), Path("/usr/bin"), Path("/usr/local/bin")]
    for pattern in _MANAGED:
        directories += Path.home().glob(pattern)
    for directory in dict.fromkeys(directories):
        for path in sorted(directory.glob("python3.[0-9]*")):
            if path.name.removeprefix("python3.").isdigit() and (about := _about(path)):
                yield about


def _about(path: Path) -> Interpreter | None:
    """None for what does not run: a version manager leaves commands that only print an error."""
    command = [str(path), "-c", _ABOUT]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    *version, real_path = answer.stdout.strip().split(" ", 3)
    return Interpreter(tuple(map(int, version)), real_path)


def _run(python: Interpreter) -> int:
    print(f"== Python {python.name} ({python.path})", flush=True)
    environment = ENVIRONMENTS / python.name
    command = ["make", *GOALS, f"PYTHON={python.path}", f"VENV={environment}"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
