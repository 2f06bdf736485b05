"""PyTorch as a backend: it runs everywhere, and is what the C++ kernels are checked against."""
