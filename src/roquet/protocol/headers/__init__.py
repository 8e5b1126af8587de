"""Request and reply headers, one module per subject, named as in `bodies`.

An attribute is the wire name in snake case, so one follows from the other; names that mean
nothing (`bname`, one-letter ones) or are in capitals (`MSG_REGION`) are replaced, with the wire
name in `field`.
A field without default is mandatory; None is absent. Names end in `Header` (request) or
`ReplyHeader`. `catalog.py` has which code carries which header.
"""
