"""`roquet broker`: its properties file, and what it says of it."""

from pathlib import Path

import pytest

from tests.support.command_line import roquet


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("aclEnable=TRUE\n", "aclEnable='TRUE' promises access control"),
        ("tls.server.mode=enforcing\n", "tls.server.mode='enforcing' promises encrypted"),
        ("inSyncReplicas=2\n", "inSyncReplicas='2' promises copies"),
        ("listenPort=many\n", "listenPort='many': expected a number"),
    ],
)
def test_what_cannot_be_obeyed_is_one_line_and_no_traceback(
    tmp_path: Path, content: str, complaint: str
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(content)
    result = roquet("broker", "-c", file, "--dir", tmp_path / "store")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"roquet broker: {complaint}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "store").exists()
