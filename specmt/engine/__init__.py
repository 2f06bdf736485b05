"""The lean forward pass over a model's weights, with a key-value cache that each row rolls back on its own."""
