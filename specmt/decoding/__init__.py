"""The draft-and-verify loop and its interchangeable parts."""
