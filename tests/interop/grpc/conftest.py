"""One broker with an endpoint, and one JVM with the Java SDK of 5.x, for all tests of a session."""

from collections.abc import Iterator

import pytest

from tests.support.sdk_programs import SdkProgram, java_command
from tests.support.sdk_stories import SdkWorld


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SdkWorld]:
    with SdkWorld(tmp_path_factory.mktemp("sdk-world")) as world:
        yield world


@pytest.fixture(scope="session")
def java_sdk(world: SdkWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SdkProgram]:
    home = tmp_path_factory.mktemp("java-sdk")
    with SdkProgram(java_command(home), home, world.endpoint) as program:
        yield program
