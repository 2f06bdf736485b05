"""Whether translations are there, up to date and whole, whoever made them."""
