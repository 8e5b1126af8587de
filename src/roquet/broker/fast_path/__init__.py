"""The fast path: sends, pulls, pops and acks that leave nothing to decide.

    fast_path       what a connection asks before its router: frames in, replies out
    header_scan     a JSON header in its common form
    sends           from such a header to stored messages, delayed, half and sent-back ones too
    pulls           from such a header to messages in the queue, or to a wait for them
    pops            from such a header to messages that are out
    acks            acks of single messages, those of one pop as one
    batch_acks      acks of many messages
    decisions       what was decided about a topic or a pull, in Python, and holds for the next one
    reply_buffer    replies, one after the other

Compiled code decides nothing here. It recognises the one case in which there is nothing to decide,
and leaves every other frame whole to the handlers, which are the one place where behaviour is
written down; a property test compares both paths. No table notifies the fast path of a change: a
decision is kept with the very settings it was derived from, which are replaced and never changed,
and holds as long as the tables hold the same ones.
"""
