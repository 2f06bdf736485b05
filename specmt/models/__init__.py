"""Verifier and drafter models, the folders that they are stored in, and their fairseq2 families."""
