"""Producers: from a message to the receipt for it; transactions and requests besides."""
