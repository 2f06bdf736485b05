// The same with products of bfloat16 (AVX512_BF16), too.

#include "variant.h"

#if defined(__x86_64__)
#define SPECMT_VARIANT avx512_bf16
#define SPECMT_AVX512 1
#define SPECMT_VNNI 1
#define SPECMT_BFLOAT16 1
BEGIN_TARGET("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")
#include "calls.h"
END_TARGET
#endif
