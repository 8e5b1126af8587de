"""Jobs without Spark: what its tasks would do is done in this process, one after the other."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

_TRACKER = SimpleNamespace(getActiveStageIds=list)
_SESSION = SimpleNamespace(
    sparkContext=SimpleNamespace(defaultParallelism=1, statusTracker=lambda: _TRACKER)
)


def run_tasks_here(patched: pytest.MonkeyPatch, job: str) -> None:
    """For the job of this name, as a command."""
    patched.setattr("roquet.pipeline.session.spark_session", lambda *_: nullcontext(_SESSION))
    patched.setattr(
        f"roquet.pipeline.jobs.{job}.run_tasks", lambda _, work, parts: list(map(work, parts))
    )
