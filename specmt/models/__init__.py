"""Verifier and drafter models, the folders that they are stored in, and their fairseq2 families."""

from specmt.models.runtime import prepare_fairseq2

# Here, so that every module below, and specmt.training, may import fairseq2 like any other package.
prepare_fairseq2()
