// What this processor can run. Nothing here needs more than every processor has.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__)
#include <sys/sysctl.h>
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

#if defined(__x86_64__)

struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers ask(unsigned leaf, unsigned part) {
    Registers r;
    __get_cpuid_count(leaf, part, &r.a, &r.b, &r.c, &r.d);
    return r;
}

bool has(unsigned bits, std::initializer_list<int> wanted) {
    for (const int bit : wanted)
        if (!(bits >> bit & 1)) return false;
    return true;
}

bool is_intel() {
    const Registers maker = ask(0, 0);  // "GenuineIntel"
    return maker.b == 0x756E6547 && maker.d == 0x49656E69 && maker.c == 0x6C65746E;
}

// Whether the system saves the registers that these bits stand for.
bool saves(unsigned bits) {
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & bits) == bits;
}

bool may_use_tiles() {
#if defined(__linux__)
    constexpr int request_permission = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

std::string find_variants() {
    const Registers basic = ask(1, 0), more = ask(7, 0), most = ask(7, 1);
    if (!has(basic.c, {12, 27, 28, 29}) || !has(more.b, {5}) || !saves(0x6)) return "";
    std::string found = "avx2";
    const auto add = [&](const char* name, bool there) {
        if (there) found = name + (' ' + found);
        return there;
    };
    add("avx2-vnni", has(most.a, {4}));
    const bool wide = add("avx512", has(more.b, {16, 17, 30, 31}) && saves(0xE6));
    const bool bytes = wide && has(more.c, {11}), pairs = bytes && has(most.a, {5});
    // Intel's multiply pairs of bfloat16 at half the speed of floats.
    if (is_intel()) add("avx512-bf16", pairs);
    add("avx512-vnni", bytes);
    if (!is_intel()) add("avx512-bf16", pairs);
    add("amx", pairs && has(more.d, {22, 24, 25}) && may_use_tiles());
    return found;
}

constexpr const char* NEEDED = "AVX2, FMA and F16C";

#elif defined(__aarch64__)

#if defined(__linux__)

std::string find_variants() {
    constexpr unsigned long DOT_PRODUCTS = 1ul << 20, I8MM = 1ul << 13, BF16 = 1ul << 14;
    if (!(getauxval(AT_HWCAP) & DOT_PRODUCTS)) return "";
    return (~getauxval(AT_HWCAP2) & (I8MM | BF16)) == 0 ? "neon-bf16 neon" : "neon";
}

#else  // macOS: Apple's have products of int8 from the first one on

bool has(const char* feature) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value == 1;
}

std::string find_variants() {
    return has("hw.optional.arm.FEAT_BF16") && has("hw.optional.arm.FEAT_I8MM") ? "neon-bf16 neon" : "neon";
}

#endif

constexpr const char* NEEDED = "products of int8 (ASIMDDP)";

#else

std::string find_variants() { return ""; }

constexpr const char* NEEDED = "instructions that they are made for (x86-64 or AArch64)";

#endif

}  // namespace

// Whether it was built from the declarations that Python reads (header.py).
EXPORT int specmt_matches(uint32_t declarations) { return declarations == SPECMT_DECLARATIONS; }

// The variants that this processor runs, the fastest first; null where there is no memory to say so.
EXPORT const char* specmt_variants() try {
    static const std::string variants = find_variants();
    return variants.c_str();
} catch (const std::bad_alloc&) {
    return nullptr;
}

// What it takes for the least of them.
EXPORT const char* specmt_needed() { return NEEDED; }
