// NEON with products of int8 (ASIMDDP).

#include "variant.h"

#if defined(__aarch64__)
#define SPECMT_VARIANT neon
BEGIN_TARGET("arch=armv8.2-a+dotprod")
#include "calls.h"
END_TARGET
#endif
