"""Builds archive and wheel from the files that git tracks, in a directory of their own.

What is compiled is taken along, so that it is compiled again only where it is out of date. `make
dist` leaves it behind: what it builds is made from nothing but sources.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_PARTS: Final = ("src", "*.toml", "*.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")
_OF_OTHERS: Final = ("tests/", "bench/", "examples/", "scripts/")


def commit() -> str:
    """As `roquet --version` says it of this checkout."""
    return _output("git", "describe", "--always", "--dirty", "--exclude=*").strip()


def copied_sources(directory: Path, *, with_compiled: bool) -> Path:
    source = directory / "source"
    for name in filter(None, _output("git", "ls-files", "-z", *_PARTS).split("\0")):
        if (ROOT / name).is_file() and not name.startswith(_OF_OTHERS):
            _copy(ROOT / name, source / name)
    if with_compiled:
        _copy_compiled(source)
    return source


def built_archive(source: Path, directory: Path) -> Path:
    _build(source, directory, "--sdist")
    (archive,) = directory.glob("*.tar.gz")
    return archive


def built_wheel(source: Path, directory: Path) -> Path:
    _build(source, directory, "--wheel")
    (wheel,) = directory.glob("*.whl")
    return wheel


def _build(source: Path, directory: Path, what: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "build", "--no-isolation", what),
            *("--outdir", str(directory), str(source)),
        ],
        # The copy is no checkout and cannot be asked.
        env={**os.environ, "ROQUET_COMMIT": commit()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{what} of {source} failed:\n{done.stdout}{done.stderr}")


def _copy_compiled(source: Path) -> None:
    """What is up to date, with the time of now: Cython translates everything again that is older
    than its own files, and an environment gets those after what was compiled for it."""
    tag = f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    sources = ROOT / "src"
    declared_s = max(_changed_s(path) for kind in ("*.pxd", "*.h") for path in sources.rglob(kind))
    for path in sources.rglob("*.pyx"):
        place = path.relative_to(sources)
        translated = path.with_suffix(".c")
        made = path.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        if not (translated.exists() and made.exists()):
            continue
        if min(_changed_s(translated), _changed_s(made)) < max(declared_s, _changed_s(path)):
            continue
        for found, target in (
            (translated, source / "src" / place.with_suffix(".c")),
            (made, source / "build" / f"lib.{tag}" / place.parent / made.name),
        ):
            _copy(found, target)
            os.utime(target)


def _changed_s(path: Path) -> float:
    return path.stat().st_mtime


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
