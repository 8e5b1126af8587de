from roquet.protocol.fields import fields_text, header_texts, read_header
from roquet.protocol.headers.messages import (
    SendMessageHeader,
    SendMessageHeaderV2,
)

LONG_TEXTS = {
    "producerGroup": "group",
    "topic": "TopicA",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "-1",
    "sysFlag": "1",
    "bornTimestamp": "1794772799247",
    "flag": "7",
    "properties": "KEYS\x01k",
    "reconsumeTimes": "2",
    "unitMode": "true",
    "maxReconsumeTimes": "16",
    "batch": "true",
    "bname": "broker-a",
}
SHORT_TEXTS = dict(zip("abcdefghijklmn", LONG_TEXTS.values(), strict=True))


def test_the_one_letter_names_stand_for_the_long_ones_in_order() -> None:
    long = read_header(SendMessageHeader, fields_text(LONG_TEXTS))
    short = read_header(SendMessageHeaderV2, fields_text(SHORT_TEXTS))
    for attribute in SendMessageHeader.__struct_fields__:
        assert getattr(short, attribute) == getattr(long, attribute), attribute


def test_both_spellings_are_written_as_they_were_read() -> None:
    for header_type, texts in ((SendMessageHeader, LONG_TEXTS), (SendMessageHeaderV2, SHORT_TEXTS)):
        assert header_texts(read_header(header_type, fields_text(texts))) == texts


def test_a_handler_of_the_long_header_takes_the_short_one() -> None:
    assert issubclass(SendMessageHeaderV2, SendMessageHeader)
    assert SendMessageHeaderV2.__struct_fields__ == SendMessageHeader.__struct_fields__
