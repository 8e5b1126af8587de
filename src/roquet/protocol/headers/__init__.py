"""Request and reply headers, one module per subject, named as in `bodies`.

An attribute is the wire name in snake case, so whoever knows one knows the other; names that say
nothing (`bname`, one-letter ones) or shout (`MSG_REGION`) get a word and keep theirs in `field`.
A field without default is mandatory; None is absent. Names end in `Header` (request) or
`ReplyHeader`. Which code carries which header is said in `catalog.py`.
"""
