// The same with products of int8 (AVX-VNNI).

#include "variant.h"

#if defined(__x86_64__)
#define SPECMT_VARIANT avx2_vnni
#define SPECMT_VNNI 1
BEGIN_TARGET("avx2,fma,f16c,avxvnni")
#include "calls.h"
END_TARGET
#endif
