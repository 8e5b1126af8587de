"""Compiles every `.pyx`, and writes down the commit; all else is said in pyproject.toml."""

import os
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

SOURCE = Path("src")
# `roquet --version` reads it; a checkout has none.
COMMIT_FILE = "roquet/built_from.txt"


def extension(path: Path) -> Extension:
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    declarations = [str(each) for kind in ("*.pxd", "*.h") for each in SOURCE.rglob(kind)]
    return Extension(
        name,
        [str(path)],
        include_dirs=[str(SOURCE)],
        depends=declarations,
        libraries=["z"],
    )


def commit() -> str | None:
    """Of a checkout; of what was made from one; or as whoever builds without either says."""
    if told := os.environ.get("ROQUET_COMMIT"):
        return told
    if (written := SOURCE / COMMIT_FILE).exists():
        return written.read_text(encoding="ascii").strip()
    if not Path(".git").exists():
        return None
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or None


def write_commit(directory: Path) -> None:
    if known := commit():
        (directory / COMMIT_FILE).write_text(f"{known}\n", encoding="ascii")


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib))


class Sdist(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir) / SOURCE)


setup(
    cmdclass={"build_py": BuildPy, "sdist": Sdist},
    ext_modules=[extension(path) for path in sorted(SOURCE.rglob("*.pyx"))],
    options={"build_ext": {"parallel": os.cpu_count()}},
)
