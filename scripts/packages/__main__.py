"""`make dist`: builds an archive and wheels into `dist`; tries each wheel in an empty environment.

There is a wheel for each supported Python that is found here, and a line for each that is not. It
is built from the archive, as it is for those who install from source; the archive is made from the
files that git tracks, in the state that they are in.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from scripts.packages.building import ROOT, built_archive, copied_sources
from scripts.pythons import Interpreter, installed, newest_of_each, supported

DIST: Final = ROOT / "dist"
SMOKE: Final = Path(__file__).with_name("smoke.py")
# The versions that are tested together, for what builds and for what is installed; no sources.
_ENVIRONMENT: Final = {
    **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
}


def main() -> None:
    for old in (*DIST.glob("roquet-*.whl"), *DIST.glob("roquet-*.tar.gz")):
        old.unlink()
    found = newest_of_each(installed(), supported())
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        print("the source archive", flush=True)
        archive = built_archive(copied_sources(directory, with_compiled=False), DIST)
        for version in sorted(supported()):
            if version in found:
                _build_and_try(found[version], archive, directory)
            else:
                print(f"no wheel for Python {'.'.join(map(str, version))}: it is not installed")
    for path in sorted(DIST.glob("roquet-*")):
        print(path.relative_to(ROOT))


def _build_and_try(python: Interpreter, archive: Path, directory: Path) -> None:
    print(f"the wheel for Python {python.name}, which takes a minute or two", flush=True)
    environment, wheels = directory / f"empty-{python.name}", directory / python.name
    program = environment / "bin" / "python"
    _run(python.path, "-m", "venv", environment)
    _run(program, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels, archive)
    (wheel,) = wheels.glob("*.whl")
    _run(program, "-m", "pip", "install", "--quiet", wheel)
    _run(program, "-I", SMOKE)
    shutil.move(wheel, DIST)


def _run(*command: str | Path) -> None:
    subprocess.run([*map(str, command)], cwd=tempfile.gettempdir(), env=_ENVIRONMENT, check=True)


main()
