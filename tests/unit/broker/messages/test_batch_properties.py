from roquet.broker.messages.appending import batch_properties


def test_the_id_of_a_batch_does_not_hide_those_of_its_messages() -> None:
    stored = batch_properties("UNIQ_KEY\x01A\x02WAIT\x01true\x02", "c")
    assert stored == b"WAIT\x01true\x02CLUSTER\x01c"


def test_a_batch_that_brings_nothing_gets_the_cluster() -> None:
    assert batch_properties("", "c") == b"CLUSTER\x01c"
