"""The league: compare every method on every data set by one protocol. Learned penalties are also
compared with published ones."""
