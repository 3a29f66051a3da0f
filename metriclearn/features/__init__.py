"""Features: what turns recordings, images and columns into the matrix X."""
