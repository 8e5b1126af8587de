"""`roquet completion`: the shells themselves say whether they can read it."""

import shutil
import subprocess

import pytest

from tests.support.command_line import roquet


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_all_commands_are_completed(shell: str) -> None:
    finished = roquet("completion", shell)
    assert finished.exit_code == 0, finished.stderr
    for word in ("by-key", "resend", "mqadmin", "namesrv", "--name-server"):
        assert word.lstrip("-") in finished.stdout


@pytest.mark.slow
def test_bash_completes_a_command() -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = roquet("completion", "bash").stdout
    ask = """
COMP_WORDS=(roquet offset re); COMP_CWORD=2; COMP_LINE="roquet offset re"; COMP_POINT=16
"$(complete -p roquet | sed 's/.*-F \\([^ ]*\\).*/\\1/')" roquet re offset
printf '%s\\n' "${COMPREPLY[@]}"
"""
    finished = subprocess.run(
        [bash, "-c", script + ask], capture_output=True, text=True, timeout=60, check=True
    )
    assert finished.stdout.split() == ["reset"]
