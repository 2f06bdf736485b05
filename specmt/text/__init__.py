"""Bytes to lines to sentences to pieces, and back."""
