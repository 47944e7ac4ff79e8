#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/dropout.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/backends/cpu/activations.h"
#include "src/backends/cpu/philox-inl.h"
#include "src/backends/cpu/strided.h"
#include "src/base/check.h"
#include "src/ops/activations.h"

#ifndef FERRY_DROPOUT_BATCHES
#define FERRY_DROPOUT_BATCHES
namespace ferry::cpu_backend {

constexpr std::int64_t kDropoutBatch = 4 * kernels::kPhiloxBatch;

struct DropoutCall {
  std::uint64_t seed;
  std::uint32_t threshold;  // an element is kept where the upper 24 bits of its word reach it
  double scale;
};

// Places [first, first + n) of batch `batch`, whose elements begin at x and y.
using DropoutLoop = void (*)(const DropoutCall& call, std::uint64_t batch, std::int64_t first, std::int64_t n,
                             const std::byte* x, std::byte* y);
using DropoutTable = std::array<DropoutLoop, kDTypeCount>;

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class T>
void dropout_batch(const DropoutCall& call, std::uint64_t batch, std::int64_t first, std::int64_t n,
                   const std::byte* x_bytes, std::byte* y_bytes) {
  using C = kernels::Compute<T>;
  alignas(64) std::uint32_t words[kDropoutBatch];
  philox_batch(call.seed, batch, words);
  auto* const x = reinterpret_cast<const T*>(x_bytes);
  auto* const y = reinterpret_cast<T*>(y_bytes);
  const C scale = static_cast<C>(call.scale);
  const std::uint32_t threshold = call.threshold;
  const std::uint32_t* const word = words + first;
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const C scaled = kernels::load(x[i]) * scale;
    y[i] = kernels::store<T>((word[i] >> 8) >= threshold ? scaled : C(0));
  }
}

DropoutTable dropout_table() {
  return {dropout_batch<float>, dropout_batch<double>, dropout_batch<float16>, dropout_batch<bfloat16>};
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(dropout_table);

void dropout(const KernelContext& context) {
  static const DropoutTable table = HWY_DYNAMIC_DISPATCH(dropout_table)();
  const TensorView &x = context.in(0), &y = context.out();
  const DropoutLoop loop = table[static_cast<std::size_t>(x.dtype)];
  FERRY_CHECK(loop != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(x.dtype));
  const auto& [p, seed, offset] = context.attributes.as<ops::DropoutAttributes>();
  const std::int64_t count = x.numel(), size = size_of(x.dtype);
  if (count == 0) return;
  const DropoutCall call{seed, static_cast<std::uint32_t>(std::ceil(std::ldexp(p, 24))), 1 / (1 - p)};
  constexpr auto kBatch = static_cast<std::uint64_t>(kDropoutBatch);
  const std::uint64_t first = offset / kBatch;
  const auto lead = static_cast<std::int64_t>(offset % kBatch);
  const std::int64_t batches = (lead + count + kDropoutBatch - 1) / kDropoutBatch;
  parallel_for(batches, kElementGrain / kDropoutBatch, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t from = i * kDropoutBatch - lead;  // the element at the batch's first place
      const std::int64_t low = std::max<std::int64_t>(from, 0), high = std::min(from + kDropoutBatch, count);
      loop(call, first + static_cast<std::uint64_t>(i), low - from, high - low, x.as<std::byte>() + low * size,
           y.as<std::byte>() + low * size);
    }
  });
}

}  // namespace ferry::cpu_backend
#endif
