"""The official SDKs of Go and Node.js at our endpoint, each with all its stories in one process."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.sdk_programs import SdkProgram, go_command, node_command
from tests.support.sdk_stories import STORIES, SdkWorld

pytestmark = [
    pytest.mark.full("fetches and compiles SDKs, once per machine"),
    pytest.mark.xdist_group("other-sdks"),
]


class Sdk(NamedTuple):
    """`lacking` are the stories that it cannot tell."""

    program: str
    command: Callable[[], list[str | Path]]
    lacking: tuple[str, ...]


# Go knows no recall. Node takes customized retry policies for none, and retries in order only once.
SDKS: Final[Mapping[str, Sdk]] = {
    "Go": Sdk("go", go_command, ("recall", "share")),
    "Node": Sdk("npm", node_command, ("ordered_dead", "share")),
}


@pytest.fixture(scope="module")
def programs(
    world: SdkWorld, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], SdkProgram]]:
    """The running program of a language, started when the first test asks."""
    running: dict[str, SdkProgram] = {}

    def program(language: str) -> SdkProgram:
        sdk = SDKS[language]
        if shutil.which(sdk.program) is None:
            pytest.skip(f"{sdk.program} is not installed")
        if language not in running:
            home = tmp_path_factory.mktemp(language)
            running[language] = SdkProgram(sdk.command(), home, world.endpoint)
        return running[language]

    yield program
    for each in running.values():
        each.kill()


@pytest.mark.parametrize(
    ("language", "story"),
    [
        (language, story)
        for language, sdk in SDKS.items()
        for story in STORIES
        if story not in sdk.lacking
    ],
)
def test_the_sdk_can_do(
    language: str, story: str, world: SdkWorld, programs: Callable[[str], SdkProgram]
) -> None:
    assert world.told(programs(language), story) == STORIES[story].expected
