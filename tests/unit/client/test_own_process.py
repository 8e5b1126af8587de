"""The number of the process is right on both sides of a fork."""

import os

import pytest

from roquet.client.own_process import own_process_id


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_has_a_number_of_its_own() -> None:
    assert own_process_id() == os.getpid()
    child = os.fork()
    if not child:
        os._exit(0 if own_process_id() == os.getpid() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert own_process_id() == os.getpid()
