"""Which process this is. Only a fork changes it, so the system is not asked with every send."""

import os

_id = os.getpid()


def own_process_id() -> int:
    return _id


def _note_fork() -> None:
    global _id  # noqa: PLW0603  There is one process, and it has one number.
    _id = os.getpid()


os.register_at_fork(after_in_child=_note_fork)
