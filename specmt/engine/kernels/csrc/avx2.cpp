// AVX2, FMA and F16C: x86-64-v3.

#include "variant.h"

#if defined(__x86_64__)
#define SPECMT_VARIANT avx2
BEGIN_TARGET("avx2,fma,f16c")
#include "calls.h"
END_TARGET
#endif
