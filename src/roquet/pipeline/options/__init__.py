"""Options of the formats: each declared once, with its name, its kind, its default and its meaning.

From these declarations options are read, refused by name, and described in docs/spark.md.
"""
