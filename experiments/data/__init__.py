"""Generated and assembled inputs of experiments."""
