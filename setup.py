from setuptools import Extension, setup

# Read through ctypes, so that building needs a C++ compiler and nothing else. Where it cannot be built, or the
# processor lacks AVX-512, the networks run on PyTorch alone.
kernels = Extension(
    "specmt.engine.kernels",
    sources=["specmt/engine/kernels.cpp"],
    # GCC 12 warns of its own AVX-512 headers.
    extra_compile_args=["-O3", "-std=c++20", "-pthread", "-Wno-maybe-uninitialized", "-Wno-uninitialized"],
    language="c++",
    optional=True,
)

setup(ext_modules=[kernels])
