"""Other programs that decode the same weights: their models made of ours, and the processes that they run in."""
