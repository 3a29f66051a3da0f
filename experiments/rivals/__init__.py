"""Methods with which ours are compared."""
