"""SETTINGS under Apache's names, as far as all servers treat them alike.

How Java reads a value, which promises are refused because they cannot be kept, and how a change
made at run time survives a restart. Which keys there are is each server's own business.
"""
