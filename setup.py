import platform
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildKernels(build_ext):
    """Says what it means where the kernels cannot be built."""

    def build_extension(self, ext):
        try:
            super().build_extension(ext)
        except Exception as error:
            if ext.name == kernels.name:
                # pip shows this with -v alone; `make install` asks the program itself.
                print(f"specmt: the C++ kernels could not be built ({error}); they take a C++20 compiler, as GCC 11.")
                print("specmt: networks will run on PyTorch alone, 4 to 8 times slower.", flush=True)
            raise  # setuptools goes on: the extension is optional


# What is not of a family runs on every processor, whatever $CFLAGS says.
OLDEST = {"x86_64": ["-march=x86-64"], "aarch64": ["-march=armv8-a"]}

# Read through ctypes, so that building needs a C++ compiler and nothing else. One file for each family of instructions
# says itself what it is compiled for; what computes is chosen when the library is loaded, wherever it was built.
kernels = Extension(
    "specmt.engine.kernels",
    sources=sorted(glob("specmt/engine/csrc/*.cpp")),
    depends=glob("specmt/engine/csrc/*.h"),
    extra_compile_args=[
        "-O3",
        "-std=c++20",
        "-pthread",
        "-fvisibility=hidden",
        "-ffp-contract=off",  # the same bits everywhere
        "-fno-fast-math",
        "-g0",
        *OLDEST.get(platform.machine(), []),
        "-Wno-maybe-uninitialized",  # GCC 12 warns of its own AVX-512 headers
        "-Wno-uninitialized",
    ],
    language="c++",
    optional=True,
)

# Without it, signals are handled by Python, which is late where torch is being loaded.
signals = Extension("specmt._signals", sources=["specmt/_signals.c"], optional=True)

setup(ext_modules=[kernels, signals], cmdclass={"build_ext": BuildKernels})
