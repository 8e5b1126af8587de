"""What is written most, filled into prepared text instead of built and encoded."""
