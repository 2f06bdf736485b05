"""Preparing data, training verifier and drafter, distilling."""
