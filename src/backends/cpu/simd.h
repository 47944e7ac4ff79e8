// Compiling a file's hot loops once for each of the instruction sets below and picking one when the program starts, by
// Highway. A file that does so begins
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "src/backends/cpu/<this file>"
//   #include "src/backends/cpu/simd.h"
//
//   #include <hwy/foreach_target.h>
//   #include <hwy/highway.h>
//
// (in this order, which the blank line keeps) and has its loops in ferry::cpu_backend::HWY_NAMESPACE between
// HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE().
#pragma once

// On x86-64 the baseline, AVX2 and AVX-512 are worth a copy of the code each.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

// Before a loop whose iterations are independent: the output is one of the inputs or overlaps none.
#if defined(__clang__)
#define FERRY_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define FERRY_INDEPENDENT _Pragma("GCC ivdep")
#else
#define FERRY_INDEPENDENT
#endif

// Before a loop of few iterations whose values are to stay in registers.
#if defined(__clang__)
#define FERRY_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define FERRY_UNROLL _Pragma("GCC unroll 16")
#else
#define FERRY_UNROLL
#endif
