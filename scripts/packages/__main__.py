"""`make dist`: builds archive and wheel into `dist`, and tries the wheel where nothing else is.

The wheel is built from the archive, as it is for those who install from source; both are made from
the files that git tracks, in the state that they are in.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.archives import unpack
from scripts.packages.building import ROOT, built_archive, built_wheel, copied_sources

DIST = ROOT / "dist"
SMOKE = Path(__file__).with_name("smoke.py")


def main() -> None:
    for old in (*DIST.glob("roquet-*.whl"), *DIST.glob("roquet-*.tar.gz")):
        old.unlink()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        print("1 of 3: the source archive")
        archive = built_archive(copied_sources(directory, with_compiled=False), DIST)
        print("2 of 3: the wheel, from the archive; what is compiled takes a minute or two")
        unpack(archive, directory)
        wheel = built_wheel(directory / archive.name.removesuffix(".tar.gz"), DIST)
        print("3 of 3: the wheel in an empty environment")
        try_alone(wheel, directory / "empty")
    print(archive.relative_to(ROOT))
    print(wheel.relative_to(ROOT))


def try_alone(wheel: Path, environment: Path) -> None:
    """With the versions that are tested together."""
    python = environment / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    for command in (
        (sys.executable, "-m", "venv", environment),
        (python, "-m", "pip", "install", "--quiet", "-c", constraints, wheel),
        (python, "-I", SMOKE),
    ):
        subprocess.run([*map(str, command)], cwd=environment.parent, check=True)


main()
