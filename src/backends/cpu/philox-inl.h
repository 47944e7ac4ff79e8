// Philox's words a batch at a time, compiled for each instruction set of simd.h. Included once for each.
#if defined(FERRY_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRY_PHILOX_INL_H_
#undef FERRY_PHILOX_INL_H_
#else
#define FERRY_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include "src/backends/cpu/simd.h"
#include "src/kernels/random.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

using kernels::kPhiloxBatch;

// The words of batch `batch` in the order of their places (src/kernels/random.h), as kernels::philox gives them.
#if HWY_TARGET == HWY_SCALAR
inline void philox_batch(std::uint64_t seed, std::uint64_t batch, std::uint32_t (&words)[4 * kPhiloxBatch]) {
  const std::uint64_t first = batch * kPhiloxBatch;
  for (std::uint32_t i = 0; i < kPhiloxBatch; ++i) {
    const auto [drawn] =
        kernels::philox(seed, static_cast<std::uint32_t>(first) + i, static_cast<std::uint32_t>(first >> 32));
    for (std::int64_t w = 0; w < 4; ++w) words[w * kPhiloxBatch + i] = drawn[w];
  }
}
#else
namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<std::uint32_t>;

// Both halves of the 64-bit products a * factor. The compiler's own choice is the slow 64-bit multiplication.
HWY_INLINE void multiply(hn::Vec<Lanes> a, std::uint32_t factor, hn::Vec<Lanes>& high, hn::Vec<Lanes>& low) {
  const Lanes tag;
  const hn::RepartitionToWide<Lanes> wide;
  const auto b = hn::Set(tag, factor);
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(tag, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  high = hn::OddEven(hn::BitCast(tag, odd), hn::BitCast(tag, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(tag, hn::ShiftLeft<32>(odd)), hn::BitCast(tag, even));
}

HWY_INLINE void philox_batch(std::uint64_t seed, std::uint64_t batch, std::uint32_t (&words)[4 * kPhiloxBatch]) {
  const Lanes tag;
  const std::uint64_t first = batch * kPhiloxBatch;
  for (std::size_t i = 0; i < kPhiloxBatch; i += hn::Lanes(tag)) {
    auto c0 = hn::Iota(tag, static_cast<std::uint32_t>(first + i)),
         c1 = hn::Set(tag, static_cast<std::uint32_t>(first >> 32));
    auto c2 = hn::Zero(tag), c3 = hn::Zero(tag);
    auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < kernels::kPhiloxRounds; ++round) {
      auto high0 = c0, low0 = c0, high1 = c2, low1 = c2;
      multiply(c0, kernels::kPhiloxFactor0, high0, low0);
      multiply(c2, kernels::kPhiloxFactor1, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(tag, k0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(tag, k1));
      c3 = low0;
      k0 += kernels::kPhiloxStep0;
      k1 += kernels::kPhiloxStep1;
    }
    hn::Store(c0, tag, words + i);
    hn::Store(c1, tag, words + kPhiloxBatch + i);
    hn::Store(c2, tag, words + 2 * kPhiloxBatch + i);
    hn::Store(c3, tag, words + 3 * kPhiloxBatch + i);
  }
}
#endif

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
