"""The official SDKs of Go, Node.js and Rust at our endpoint, all stories in one process each."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.sdk_programs import (
    SdkProgram,
    go_command,
    missing_go,
    node_command,
    rust_command,
)
from tests.support.sdk_stories import LACKING, STORIES, SdkWorld

pytestmark = [
    pytest.mark.full("fetches and compiles SDKs, once per machine"),
    pytest.mark.xdist_group("other-sdks"),
]


class Sdk(NamedTuple):
    """`missing` is why it cannot be built here, if so."""

    missing: Callable[[], str | None]
    command: Callable[[], list[str | Path]]


def missing_tool(name: str) -> Callable[[], str | None]:
    return lambda: None if shutil.which(name) else f"{name} is not installed"


SDKS: Final[Mapping[str, Sdk]] = {
    "Go 5.1.3": Sdk(missing_go, go_command),
    "Node.js 1.0.8": Sdk(missing_tool("npm"), node_command),
    "Rust 5.0.0": Sdk(missing_tool("cargo"), rust_command),
}


@pytest.fixture(scope="module")
def programs(
    world: SdkWorld, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], SdkProgram]]:
    """The running program of a language, started when the first test asks."""
    running: dict[str, SdkProgram] = {}

    def program(language: str) -> SdkProgram:
        sdk = SDKS[language]
        reason = sdk.missing()
        if reason is not None:
            pytest.skip(reason)
        if language not in running:
            home = tmp_path_factory.mktemp("sdk")
            running[language] = SdkProgram(sdk.command(), home, world.endpoint)
        return running[language]

    yield program
    for each in running.values():
        each.kill()


@pytest.mark.parametrize(
    ("language", "story"),
    [(language, story) for language in SDKS for story in STORIES if story not in LACKING[language]],
)
def test_the_sdk_can_do(
    language: str, story: str, world: SdkWorld, programs: Callable[[str], SdkProgram]
) -> None:
    assert world.outcome(programs(language), story) == STORIES[story].expected
