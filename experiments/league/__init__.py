"""The league compares every method on every data set by one protocol, and penalties with published
ones."""
