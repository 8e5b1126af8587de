"""`roquet spark package` as a person sees it."""

from pathlib import Path

import pytest

from roquet.pipeline.jobs.package import LIBRARIES
from tests.support.command_line import roquet


def test_an_archive_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    finished = roquet("spark", "package", tmp_path / "site.tar")
    assert finished.exit_code == 1
    assert finished.stderr.splitlines()[-1].endswith("must end in .zip: Spark unpacks by the name")


@pytest.mark.slow
def test_a_package_says_how_it_is_used(tmp_path: Path) -> None:
    without = [word for name in LIBRARIES for word in ("--without", name)]
    finished = roquet("spark", "package", tmp_path / "site.zip", *without)
    assert finished.exit_code == 0
    assert f"--archives {tmp_path}/site.zip#site" in finished.stderr
