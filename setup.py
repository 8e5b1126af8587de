"""Compiles every `.pyx`; all else about the package is said in pyproject.toml."""

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("src")


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


setup(
    ext_modules=[extension(path) for path in sorted(SOURCE.rglob("*.pyx"))],
    options={"build_ext": {"parallel": os.cpu_count()}},
)
