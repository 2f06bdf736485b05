// For wheels (SPECMT_PORTABLE, setup.py): functions as glibc had them in its first version for this processor, whatever
// the one is that the library is linked with. What is said is the same; from 2.28 on, so are the bits of exp and log.

#include <pthread.h>

#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST "GLIBC_2.17"
#endif

#define FROM_FIRST(result, name, parameters, ...)                      \
    result first_##name parameters;                                    \
    __asm__(".symver first_" #name ", " #name "@" FIRST);              \
    __attribute__((visibility("hidden"))) result __wrap_##name parameters { return first_##name(__VA_ARGS__); }

extern "C" {

FROM_FIRST(double, exp, (double x), x)
FROM_FIRST(double, log, (double x), x)
FROM_FIRST(int, pthread_create,
           (pthread_t * thread, const pthread_attr_t* how, void* (*run)(void*), void* given), thread, how, run, given)
FROM_FIRST(int, pthread_join, (pthread_t thread, void** result), thread, result)

// What libstdc++ asks before it counts references: whether it may do so without atomic instructions.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
}
