"""Hostile archives, unpacked by `tarfile` itself where it can, and by hand with every Python."""

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.archives import HAS_DATA_FILTER, UnsafeArchive, extract_checked, unpack

type_of = {
    "file": tarfile.REGTYPE,
    "directory": tarfile.DIRTYPE,
    "symlink": tarfile.SYMTYPE,
    "hard link": tarfile.LNKTYPE,
    "character device": tarfile.CHRTYPE,
    "block device": tarfile.BLKTYPE,
    "pipe": tarfile.FIFOTYPE,
}

Unpacked = Callable[[list[tarfile.TarInfo]], Path]


def by_hand(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as opened:
        if HAS_DATA_FILTER:
            # As Pythons without filters extract; newer ones warn if none is chosen.
            opened.extraction_filter = tarfile.fully_trusted_filter
        extract_checked(opened, directory)


@pytest.fixture(params=[unpack, by_hand])
def unpacked(request: pytest.FixtureRequest, tmp_path: Path) -> Unpacked:
    """Packs members and unpacks them into the directory that is returned."""

    def pack_and_unpack(members: list[tarfile.TarInfo]) -> Path:
        archive, directory = tmp_path / "hostile.tar", tmp_path / "unpacked"
        with tarfile.open(archive, "w") as packed:
            for member in members:
                packed.addfile(member, io.BytesIO(bytes(member.size)))
        directory.mkdir()
        request.param(archive, directory)
        return directory

    return pack_and_unpack


def member(
    name: str, kind: str = "file", *, leads_to: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = type_of[kind]
    made.linkname = leads_to
    made.mode = mode
    made.size = 3 if kind == "file" else 0
    made.uid = made.gid = 12345
    made.uname = made.gname = "daemon"
    return made


def mode_of(path: Path) -> int:
    return path.lstat().st_mode & 0o7777


def test_the_filter_of_tarfile_is_used_where_there_is_one() -> None:
    assert hasattr(tarfile, "data_filter") == HAS_DATA_FILTER


def test_data_is_unpacked(unpacked: Unpacked) -> None:
    directory = unpacked(
        [
            member("inner", "directory", mode=0o700),
            member("inner/one"),
            member("inner/near", "symlink", leads_to="one"),
            member("inner/far", "symlink", leads_to="../two"),
            member("two"),
            member("same", "hard link", leads_to="inner/one"),
        ]
    )
    for name in ("inner/one", "inner/near", "inner/far", "two", "same"):
        assert (directory / name).read_bytes() == bytes(3)
    assert (directory / "same").samefile(directory / "inner/one")


def test_an_absolute_path_becomes_one_below_the_directory(
    unpacked: Unpacked, tmp_path: Path
) -> None:
    directory = unpacked([member(f"/{tmp_path}/absolute")])
    assert not (tmp_path / "absolute").exists()
    assert (directory / str(tmp_path).lstrip("/") / "absolute").is_file()


@pytest.mark.parametrize(
    "members",
    [
        [member("../outside")],
        [member("inner/../../outside")],
        [member("/../outside")],
        [member("../unpacked-too/outside")],
        [member("link", "symlink", leads_to="..")],
        [member("link", "symlink", leads_to="/etc")],
        [member("inner/link", "symlink", leads_to="../../outside")],
        [member("link", "hard link", leads_to="/etc/passwd")],
        [member("link", "hard link", leads_to="../hostile.tar")],
        [member("here", "symlink", leads_to="."), member("here/../../outside")],
        [member("device", "character device")],
        [member("device", "block device")],
        [member("pipe", "pipe")],
    ],
    ids=lambda members: " ".join(f"{each.name}>{each.linkname}" for each in members),
)
def test_what_is_no_data_is_refused(
    unpacked: Unpacked, tmp_path: Path, members: list[tarfile.TarInfo]
) -> None:
    with pytest.raises(UnsafeArchive) as refused:
        unpacked([*members, member("later")])
    assert refused.value.member.lstrip("/") == members[-1].name.lstrip("/")
    assert {each.name for each in tmp_path.iterdir()} == {"hostile.tar", "unpacked"}
    left = {each.name for each in (tmp_path / "unpacked").iterdir()}
    assert left <= {each.name for each in members[:-1]}


@pytest.mark.parametrize(
    ("packed_mode", "unpacked_mode"),
    [(0o6777, 0o755), (0o1777, 0o755), (0o666, 0o644), (0o000, 0o600), (0o011, 0o600)],
)
def test_files_get_harmless_modes(unpacked: Unpacked, packed_mode: int, unpacked_mode: int) -> None:
    directory = unpacked([member("file", mode=packed_mode)])
    assert mode_of(directory / "file") == unpacked_mode


def test_directories_get_no_mode_of_the_archive(unpacked: Unpacked) -> None:
    directory = unpacked([member("inner", "directory", mode=0o6000), member("inner/file")])
    assert mode_of(directory / "inner") & 0o7700 == 0o700


def test_everything_belongs_to_this_process(unpacked: Unpacked) -> None:
    directory = unpacked([member("inner", "directory"), member("inner/file")])
    for path in (directory / "inner", directory / "inner/file"):
        assert (path.stat().st_uid, path.stat().st_gid) == (os.geteuid(), os.getegid())
