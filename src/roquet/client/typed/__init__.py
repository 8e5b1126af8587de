"""Typed topics: values of a program's own types instead of bytes.

`topic` binds a topic to a type and a codec, `codecs` has those that follow from the type.
"""
