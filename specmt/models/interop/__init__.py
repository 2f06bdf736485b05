"""Importers: models of other programs as model folders of ours."""
