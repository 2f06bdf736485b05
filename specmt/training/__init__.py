"""Preparing data, training verifier and drafter, distilling."""

import specmt.models.reference  # noqa: F401  (makes fairseq2 importable)
