"""The German-English recipe: what pairs are kept, how they are varied, and what is made up."""
