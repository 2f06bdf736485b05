"""Quality and speed of decoding, measured and reported; imports nothing from above the models."""
