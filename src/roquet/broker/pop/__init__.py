"""Pop consumption of 5.x: messages handed out for a time, acknowledged one by one, or redelivered.

first_queue      which queue a pop looks at first
popping          which messages a pop takes
ordered_popping  the same in order, and what acks mean there
taken            what a pop has taken, and its reply
polling          pops that wait for a message
acking           messages that are acknowledged, or get another time
ack_turn         acks that come together, written together
receipts         what a client gets with a message, and acknowledges it with
journal          what was popped, acknowledged and postponed, as records of the revive topic
journal_writing  how its records are written
record_texts     the same for pops and acks, compiled
fast_notes       pops and acks noted by these, compiled
in_flight        the messages that are out, and when each has to come again: a fold over the journal
ordered_queue    the same for one queue that is popped in order
redelivery       messages whose time is over, back in the retry topic of their group
"""
