"""Importers: models of other programs as model folders of ours.

What is missing or damaged, and what cannot be run here, raises `ModelError`; what the user is to say in another way
raises `UsageError`. Either names the file in one line.
"""
