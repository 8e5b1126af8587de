"""A yes at the terminal."""

import pytest

from tests.support.terminal import Terminal
from tests.unit.cli.conftest import Shop

pytestmark = pytest.mark.slow


def test_a_user_at_a_terminal_is_asked(at: Shop) -> None:
    at.admin.create_topic("doomed")
    with Terminal("topic", "delete", "doomed") as terminal:
        terminal.wait_for("Delete topic doomed with all its messages? [y/N]")
        terminal.press("n\n")
        terminal.wait_for("nothing was changed")
        assert terminal.wait_for_end() == 1
    assert "doomed" in at.admin.topics()
    with Terminal("topic", "delete", "doomed") as terminal:
        terminal.wait_for("[y/N]")
        terminal.press("y\n")
        terminal.wait_for("deleted")
        assert terminal.wait_for_end() == 0
    assert "doomed" not in at.admin.topics()
