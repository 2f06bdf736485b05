"""Compiles the C++ kernels, its files side by side, and the handler of signals. The environment says how:

SPECMT_VARIANTS  all    every variant of the kernels for this architecture, which is what is done by default
                 own    the variant that this very processor picks
                 none   no kernels: everything is computed by PyTorch, which the extra `torch` brings
SPECMT_PORTABLE  1      for wheels on Linux: nothing is needed but a glibc of version 2.28, or a later one
"""

import ctypes
import os
import platform
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent))

from specmt.engine.kernels import header

SOURCES = Path("specmt/engine/kernels/csrc")

VARIANTS = os.environ.get("SPECMT_VARIANTS", "all")
if VARIANTS not in ("all", "own", "none"):
    sys.exit(f"specmt: `SPECMT_VARIANTS` must be one of all, own, none, but is {VARIANTS!r} instead.")

PORTABLE = os.environ.get("SPECMT_PORTABLE") == "1"
WRAPPED = ("exp", "log", "pthread_create", "pthread_join")  # csrc/glibc_2_28.cpp

# What is not of a family runs on every processor, whatever $CFLAGS says.
OLDEST = {"x86_64": ["-march=x86-64"], "aarch64": ["-march=armv8-a"]}

# Read through ctypes, so that building needs a C++ compiler and nothing else. One file for each family of instructions
# says itself what it is compiled for; what computes is chosen when the library is loaded, wherever it was built.
kernels = Extension(
    "specmt.engine.kernels._kernels",
    sources=[str(path) for path in sorted(SOURCES.glob("*.cpp")) if PORTABLE or path.stem != "glibc_2_28"],
    depends=list(map(str, SOURCES.glob("*.h"))),
    extra_compile_args=[
        "-O3",
        "-std=c++20",
        "-pthread",
        "-fPIC",
        "-fwrapv",
        "-fvisibility=hidden",
        "-ffp-contract=off",  # the same bits everywhere
        "-fno-fast-math",
        "-g0",
        header.definition(),
        *OLDEST.get(platform.machine(), []),
        "-Wno-maybe-uninitialized",  # GCC 12 warns of its own AVX-512 headers
        "-Wno-uninitialized",
    ],
    extra_link_args=[
        "-static-libstdc++",
        "-Wl,--gc-sections",
        "-Wl,--exclude-libs,ALL",
        *(f"-Wl,--wrap={name}" for name in WRAPPED),
    ]
    if PORTABLE
    else [],
    language="c++",
    optional=True,
    py_limited_api=True,
)

# Without it, signals are handled by Python, which is late where much is being loaded.
signals = Extension(
    "specmt._signals",
    sources=["specmt/_signals.c"],
    define_macros=[("Py_LIMITED_API", "0x030A0000")],
    optional=True,
    py_limited_api=True,
)


class Build(build_ext):
    """Compiles files side by side, and says what it means where the kernels cannot be built."""

    def build_extension(self, ext):
        if ext is not kernels:
            super().build_extension(ext)
            return
        compile_all = self.compiler.compile

        def compile_side_by_side(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                made = pool.map(lambda source: compile_all([source], **options), sources)
                return [each for objects in made for each in objects]

        self.compiler.compile = compile_side_by_side
        self.force = True  # it may have been made of other variants
        try:
            if VARIANTS == "own":
                self.choose_own(ext)
            super().build_extension(ext)
        except Exception as error:
            if not asks_for_torch():
                sys.exit(
                    "specmt: without C++ kernels nothing would compute: install a C++20 compiler (such as GCC 11), the "
                    "wheel, or `specmt[torch]` with SPECMT_VARIANTS=none, which is 4 to 8 times slower."
                )
            # pip shows this with -v alone; `make install` asks the program itself.
            print(f"specmt: the C++ kernels could not be built ({error}); they take a C++20 compiler, as GCC 11.")
            print("specmt: networks will run on PyTorch alone, 4 to 8 times slower.", flush=True)
            raise  # setuptools goes on: the extension is optional
        finally:
            self.compiler.compile = compile_all

    def choose_own(self, ext):
        """Leaves the variant alone that the kernels say this processor picks."""
        support = str(SOURCES / "support.cpp")
        objects = self.compiler.compile(
            [support], output_dir=self.build_temp, extra_postargs=ext.extra_compile_args, depends=ext.depends
        )
        library = os.path.join(self.build_temp, "support.so")
        self.compiler.link_shared_object(objects, library, target_lang="c++")
        ask = ctypes.CDLL(os.path.abspath(library)).specmt_variants
        ask.restype = ctypes.c_char_p
        own = ask().decode().replace("-", "_").split()[:1]
        ext.sources = [source for source in ext.sources if Path(source).stem in (*own, "support", "glibc_2_28")]

    def copy_extensions_to_source(self):
        """Those of other versions of Python go: they would be found first."""
        for ext in self.extensions:
            *packages, name = ext.name.split(".")
            for other in Path(*packages).glob(f"{name}.*.so"):
                other.unlink()
        super().copy_extensions_to_source()


def asks_for_torch():
    """Returns whether PyTorch will be there, as far as that can be told: installers do not say what extras they add."""
    command = ""
    with suppress(OSError):
        command = Path(f"/proc/{os.getppid()}/cmdline").read_text()
    return re.search(r"\[[^\]]*\b(torch|all|dev|peers)\b", command) is not None


setup(ext_modules=[signals] if VARIANTS == "none" else [kernels, signals], cmdclass={"build_ext": Build})
