"""The league: every data set × every method by one protocol, and the record for penalties."""
