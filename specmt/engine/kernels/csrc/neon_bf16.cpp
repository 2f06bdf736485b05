// The same with products of bfloat16 (BF16) and of matrices of int8 (I8MM), too.

#include "variant.h"

#if defined(__aarch64__)
#define SPECMT_VARIANT neon_bf16
#define SPECMT_BFLOAT16 1
#define SPECMT_MATRICES 1
BEGIN_TARGET("arch=armv8.2-a+dotprod+bf16+i8mm")
#include "calls.h"
END_TARGET
#endif
