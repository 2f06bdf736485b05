// AVX-512: x86-64-v4.

#include "variant.h"

#if defined(__x86_64__)
#define SPECMT_VARIANT avx512
#define SPECMT_AVX512 1
BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")
#include "calls.h"
END_TARGET
#endif
