// What a file of a variant begins with: what is compiled for every processor, before instructions are chosen that not all
// of them have, and how those are chosen.
//
// Nothing of the standard library is compiled for the variant, so that no linker can mix it into others.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "structures.h"
#include "threading.h"

#define SPECMT_PRAGMA(words) _Pragma(#words)
#if defined(__clang__)
#define BEGIN_TARGET(features) \
    SPECMT_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define END_TARGET _Pragma("clang attribute pop")
#else
#define BEGIN_TARGET(features) _Pragma("GCC push_options") SPECMT_PRAGMA(GCC target(features))
#define END_TARGET _Pragma("GCC pop_options")
#endif
