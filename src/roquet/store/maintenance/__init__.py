"""Old files go, or are looked at again."""
