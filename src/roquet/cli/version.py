"""Version, and the commit it was built from; loaded for `--version` only.

A wheel has the commit in a file that was written when it was built; in a checkout git is run.
"""

import subprocess
from pathlib import Path
from typing import Final

import roquet

# `setup.py` writes it into wheels and source archives.
COMMIT_FILE: Final = "built_from.txt"
_UNKNOWN: Final = "commit unknown"
_TIMEOUT_S: Final = 10.0


def version_text() -> str:
    package = Path(roquet.__file__).parent
    commit = _written(package / COMMIT_FILE) or _checked_out(package.parent.parent)
    return f"roquet {roquet.__version__} ({f'commit {commit}' if commit else _UNKNOWN})"


def _written(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None


def _checked_out(root: Path) -> str | None:
    """With the suffix "-dirty" where files have been changed since."""
    # Without the first look, any repository that the package is installed below would answer.
    if not (root / ".git").exists():
        return None
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],  # noqa: S607
            cwd=root,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
