"""What `roquet --version` says of a checkout, a wheel, and what is neither."""

import subprocess
from pathlib import Path

import pytest

import roquet
from roquet.cli.main import run_command
from roquet.cli.version import COMMIT_FILE, version_text


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the package is taken to be."""
    package = tmp_path / "src" / "roquet"
    package.mkdir(parents=True)
    monkeypatch.setattr(roquet, "__file__", str(package / "__init__.py"))
    return package


def test_a_checkout_says_its_commit(package: Path, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        names = ("-c", "user.name=me", "-c", "user.email=me@example.com")
        return subprocess.run(
            ["git", *names, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "--quiet")
    (package / "__init__.py").write_text("")
    git("add", ".")
    git("commit", "--quiet", "--message", "all of it")
    commit = git("rev-parse", "--short", "HEAD")
    assert version_text() == f"roquet {roquet.__version__} (commit {commit})"
    (package / "__init__.py").write_text("changed = True\n")
    assert version_text().endswith(f"(commit {commit}-dirty)")


def test_a_wheel_says_what_it_was_built_from(package: Path) -> None:
    (package / COMMIT_FILE).write_text("1234567\n")
    assert version_text() == f"roquet {roquet.__version__} (commit 1234567)"


def test_what_is_neither_says_so(package: Path) -> None:
    assert version_text() == f"roquet {roquet.__version__} (commit unknown)"


def test_the_command_says_it_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run_command(["--version"])
    assert not end.value.code
    assert capsys.readouterr().out == f"{version_text()}\n"
