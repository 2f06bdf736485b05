"""Translations that are kept up to date: what was translated from what is in a record beside them."""
