"""Where a lake is, by what people write, and what an object store is asked with."""

from pathlib import Path

import pytest

from roquet.pipeline.errors import BadOption
from roquet.pipeline.lake.opening import format_of
from roquet.pipeline.lake.places import (
    LakeStoreError,
    S3Location,
    Storage,
    beside,
    check_reachable,
    read_place,
    store_error,
)
from tests.support.ports import free_port
from tests.support.raising import raises

LAKE = S3Location("bucket", "some/lake")
ROLES = [
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
]


def set_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def unset_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ROLES, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_INSTANCE_ROLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("text", ["/data/lake", "file:/data/lake", "file:///data/lake"])
def test_a_lake_is_a_directory_or_its_uri(text: str) -> None:
    assert read_place(text) == Path("/data/lake")


def test_spaces_in_a_uri_are_unquoted_and_those_of_a_path_kept() -> None:
    assert read_place("file:///a%20lake") == Path("/a lake")
    assert read_place("a%20lake") == Path("a%20lake")
    assert read_place("old:orders") == Path("old:orders")


@pytest.mark.parametrize("text", ["s3://bucket/some/lake", "s3a://bucket/some/lake/"])
def test_a_lake_is_a_prefix_of_a_bucket(text: str) -> None:
    """It used to become a directory named `s3:`, while the group's offsets moved on."""
    assert read_place(text) == LAKE
    assert str(beside(LAKE, "-quarantine")) == "s3://bucket/some/lake-quarantine"


@pytest.mark.parametrize(
    "text",
    ["hdfs://host:9000/lake", "gs://bucket/lake", "file://host/lake", "s3://bucket", "s3:///lake"],
)
def test_a_place_that_cannot_be_reached_is_refused(text: str) -> None:
    with raises(BadOption, name="lake"):
        read_place(text)


def test_options_of_a_file_come_before_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "here")
    set_keys(monkeypatch)
    file = tmp_path / "options.json"
    file.write_text('{"aws_region": "there"}')
    options = Storage(S3Location("bucket", "lake", file)).options
    assert (options["AWS_REGION"], options["AWS_ACCESS_KEY_ID"]) == ("there", "key")


@pytest.mark.parametrize("content", ["", "[]", '{"AWS_REGION": 1}', None])
def test_a_file_that_has_no_options_is_reported(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "options.json"
    if content is not None:
        file.write_text(content)
    with raises(BadOption, name="storage-options"):
        Storage(S3Location("bucket", "lake", file)).options  # noqa: B018


def test_keys_are_not_sent_unencrypted_unless_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_keys(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with raises(BadOption, name="AWS_ENDPOINT_URL"):
        Storage(LAKE).options  # noqa: B018
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert Storage(LAKE).options["AWS_ALLOW_HTTP"] == "true"


@pytest.mark.parametrize(
    ("given", "missing"),
    [({}, "AWS_ACCESS_KEY_ID"), ({"AWS_ACCESS_KEY_ID": "key"}, "AWS_SECRET_ACCESS_KEY")],
)
def test_missing_keys_are_named_before_a_cloud_is_asked(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], missing: str
) -> None:
    unset_keys(monkeypatch)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with raises(BadOption, name=missing):
        Storage(LAKE).options  # noqa: B018


@pytest.mark.parametrize("role", ROLES)
def test_a_role_of_the_environment_needs_no_keys(
    monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    unset_keys(monkeypatch)
    monkeypatch.setenv(role, "some")
    assert "AWS_ACCESS_KEY_ID" not in Storage(LAKE).options


def test_the_role_of_a_machine_is_used_if_an_option_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unset_keys(monkeypatch)
    file = tmp_path / "options.json"
    file.write_text('{"aws_instance_role": "true"}')
    options = Storage(S3Location("bucket", "lake", file)).options
    assert not {"AWS_ACCESS_KEY_ID", "AWS_INSTANCE_ROLE"} & options.keys()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("404\n<Error><Code>NoSuchBucket</Code></Error>", "NoSuchBucket"),
        ("AWS Error NO_SUCH_BUCKET during CreateMultipartUpload", "NoSuchBucket"),
        ("Generic S3 error\n  \x1b[31m↳\x1b[0m Connection refused", None),
    ],
)
def test_what_a_store_answers_becomes_one_line(text: str, code: str | None) -> None:
    error = store_error(LAKE, text)
    assert error.code == code
    assert "\n" not in str(error)
    assert "\x1b" not in str(error)


@pytest.mark.parametrize("text", ["s3:bucket/lake", "s3//bucket/lake", "S3A:lake"])
def test_what_remains_of_a_uri_after_a_slip_is_no_directory(text: str) -> None:
    with raises(BadOption, name="lake"):
        read_place(text)
    assert read_place(f"./{text}") == Path(text)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "localhost", "ftp://host", "https://"])
def test_an_endpoint_that_is_no_url_is_reported(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    set_keys(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with raises(BadOption, name="AWS_ENDPOINT_URL"):
        Storage(LAKE).options  # noqa: B018


def test_a_store_that_does_not_listen_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries connect again for over a minute, and print nothing meanwhile."""
    set_keys(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with pytest.raises(LakeStoreError, match="check AWS_ENDPOINT_URL"):
        check_reachable(LAKE)
    # A proxy may know how to reach it.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    check_reachable(LAKE)


def test_a_directory_and_a_cloud_are_reached_by_libraries_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_keys(monkeypatch)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    check_reachable(tmp_path)
    check_reachable(LAKE)


@pytest.mark.parametrize("uri", ["s3://bucket/lake", "hdfs://host:9000/lake"])
def test_a_path_that_was_made_of_a_uri_is_no_directory(uri: str) -> None:
    """In a program, it used to become a directory named `s3:`."""
    with raises(BadOption, name="lake"):
        format_of(Path(uri), None)
