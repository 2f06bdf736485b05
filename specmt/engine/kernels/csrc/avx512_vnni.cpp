// The same with products of int8 (AVX512_VNNI).

#include "variant.h"

#if defined(__x86_64__)
#define SPECMT_VARIANT avx512_vnni
#define SPECMT_AVX512 1
#define SPECMT_VNNI 1
BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
#include "calls.h"
END_TARGET
#endif
