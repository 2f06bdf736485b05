"""The C++ kernels: networks and the whole loop on the CPU."""
