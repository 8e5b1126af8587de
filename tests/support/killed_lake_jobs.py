"""Jobs of Spark on a lake in S3 that get SIGKILL, told by the files that are there."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

from pyarrow import fs

from roquet.pipeline.lake.places import LakePlace, S3Location, Storage, beside
from roquet.pipeline.lake.staging import LATEST_SUFFIX
from tests.support.eventually import let_run, wait_until

_PATIENCE_S = 300


def paths(lake: LakePlace) -> list[str]:
    """Of all files of messages, listed or not, of the lake and of what is beside it."""
    assert isinstance(lake, S3Location)
    found = []
    for place in (lake, beside(lake, LATEST_SUFFIX), beside(lake, "-quarantine")):
        storage = Storage(place)
        selector = fs.FileSelector(storage.root, recursive=True, allow_not_found=True)
        listed = storage.filesystem.get_file_info(selector)
        found += [each.path for each in listed if "/topic=" in each.path and each.is_file]
    return found


def file_count(lake: LakePlace) -> int:
    # Each look is a request, and the job under test needs the same server.
    let_run(0.2)
    return len(paths(lake))


def has_files(lake: LakePlace, count: int) -> Callable[[], bool]:
    return lambda: file_count(lake) >= count


def kill_job(lake: LakePlace, more: int, *words: str) -> None:
    """`roquet spark ...`, until so many more files are there; it may come to its end before."""
    assert isinstance(lake, S3Location)
    is_time = has_files(lake, file_count(lake) + more)
    place = ("--lake", str(lake), "--storage-options", str(lake.options_file))
    start = (sys.executable, "-c", "from roquet.cli.main import main; main()", "spark")
    process = subprocess.Popen(
        [*start, words[0], *place, *words[1:]],
        env={key: value for key, value in os.environ.items() if "PYSPARK" not in key},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(partial(_is_over, process, is_time), _PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def _is_over(process: "subprocess.Popen[bytes]", is_time: Callable[[], bool]) -> bool:
    return process.poll() is not None or is_time()
