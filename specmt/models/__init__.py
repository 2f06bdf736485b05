"""Models: the folders that they are stored in, read, checked, written and imported."""
