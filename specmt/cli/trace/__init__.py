"""`specmt trace`: what the loop did for a sentence, on a terminal, as a page and for programs."""
