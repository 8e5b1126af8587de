"""A lane for plain requests: sends, batches and pulls that leave nothing to decide.

    lane            what a connection asks before its router: frames in, replies out
    header_scan     a JSON header as it is usually written
    sends           from such a header to stored messages
    pulls           from such a header to messages that are there, or to a wait for them
    decisions       what was decided about a topic or a pull, in Python, and holds for the next one
    reply_buffer    replies one behind the other

Compiled code decides nothing here. It recognises the one case in which there is nothing to decide,
and leaves every other frame whole to the handlers, which are the one place where behaviour is
written down; a property test holds both ways against each other. Nothing has to be told of a
change: a decision is kept with the very settings it was made from, which are replaced and never
changed, and holds as long as the tables hold the same ones.
"""
