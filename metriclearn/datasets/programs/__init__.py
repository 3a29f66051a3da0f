"""Files of other programs that take more than a few lines to read."""
