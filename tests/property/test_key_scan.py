"""The keys of many records at once are those of the records one by one, whatever these hold."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, strategies as st

from roquet.disk import SystemDisk
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import MAGIC_V1, MAGIC_V2
from roquet.store.commit_log import CommitLog
from roquet.store.keys.message_keys import key_batch, keys_in_log

# What clients write, and all that could be taken for it.
PIECES = (
    b"UNIQ_KEY\x01",
    b"KEYS\x01",
    b"TAGS\x01",
    b"__CRC32#\x01",
    b"UNIQ_KEY\x017F000001\x02",
    b"KEYS\x01order-1\x02",
    b"KEYS\x01a  b\x02",
    # As many as a text of this size can have.
    b"KEYS\x01" + b" ".join([b"k"] * 65) + b"\x02",
    b"TAGS\x01paid\x02",
    b"\x01",
    b"\x02",
    b" ",
    b"k",
    b"\0",
    "größe".encode(),
    b"\xff",
    b"x" * 999,
)
HOSTS = (pack_host("10.0.0.1", 1), pack_host("::1", 1))


@st.composite
def drafts(draw: st.DrawFn) -> RecordDraft:
    magic = draw(st.sampled_from((MAGIC_V1, MAGIC_V1, MAGIC_V2)))
    return RecordDraft(
        queue_id=0,
        flag=0,
        sys_flag=draw(st.sampled_from((0, 0, 1, 4, 8, 12))),
        born_timestamp=0,
        born_host=draw(st.sampled_from(HOSTS)),
        store_host=draw(st.sampled_from(HOSTS)),
        body=draw(st.binary(max_size=5)),
        topic=draw(
            st.sampled_from((b"", b"T", b"\x02KEYS\x01", b"\x02", "ö".encode(), b"t" * 127))
        ),
        properties=b"".join(draw(st.lists(st.sampled_from(PIECES), max_size=6))),
        magic=magic,
        has_checksum=True,
    )


@given(st.lists(drafts(), max_size=12), st.booleans())
def test_a_scan_says_the_same_as_records_one_by_one(
    several: list[RecordDraft], with_tags: bool
) -> None:
    with TemporaryDirectory() as directory:
        log = CommitLog(SystemDisk(), Path(directory), 1 << 15)
        log.resume()
        offsets = [log.append(each, 0, 1000 + number) for number, each in enumerate(several)]
        found = keys_in_log(log, offsets, with_tags=with_tags)
        expected = key_batch([log.record_at(each) for each in offsets], with_tags=with_tags)
        log.close()
    assert list(found) == list(expected)
