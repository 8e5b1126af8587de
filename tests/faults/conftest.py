"""A broker of ours, as a process, without a name server."""

from collections.abc import Iterator

import pytest

from tests.support.our_cluster import OurBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    with OurBroker(tmp_path_factory.mktemp("broker")) as started:
        yield started
