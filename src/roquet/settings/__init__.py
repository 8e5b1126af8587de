"""Options under Apache's names, as far as all servers treat them alike.

How options are declared and parsed, which are refused because they are not supported, and how a
change made at run time survives a restart. Each server declares its own options. Imports `errors`.
"""
