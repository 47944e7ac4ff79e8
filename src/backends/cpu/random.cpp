#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/random.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/philox-inl.h"
#include "src/backends/cpu/strided.h"
#include "src/kernels/random.h"
#include "src/ops/attributes.h"

#ifndef FERRY_RANDOM_BATCHES
#define FERRY_RANDOM_BATCHES
namespace ferry::cpu_backend {

template <class C>
using Batch = void (*)(std::uint64_t seed, std::uint64_t batch, C a, C b, C last, C* to);

struct FloatBatches {
  Batch<float> uniform, normal;
};

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

using kernels::kPhiloxBatch;

// 4 * kPhiloxBatch elements low + u * scale, at most `last`.
void uniform_batch(std::uint64_t seed, std::uint64_t batch, float low, float scale, float last, float* to) {
  alignas(64) std::uint32_t words[4 * kPhiloxBatch];
  philox_batch(seed, batch, words);
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < 4 * kPhiloxBatch; ++i) {
    const float value = low + kernels::unit_float(words[i]) * scale;
    to[i] = value < last ? value : last;
  }
}

// 4 * kPhiloxBatch elements; words 0 and 1 of a counter make two of them, words 2 and 3 two more.
void normal_batch(std::uint64_t seed, std::uint64_t batch, float mean, float deviation, float /*last*/, float* to) {
  alignas(64) std::uint32_t words[4 * kPhiloxBatch];
  philox_batch(seed, batch, words);
  for (std::int64_t w = 0; w < 4; w += 2) {
    const std::uint32_t *const first = words + w * kPhiloxBatch, *const second = first + kPhiloxBatch;
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < kPhiloxBatch; ++i) {
      const auto drawn = kernels::box_muller(kernels::unit_float(first[i]) + 0x1p-24f, kernels::unit_float(second[i]));
      to[w * kPhiloxBatch + i] = mean + drawn.first * deviation;
      to[(w + 1) * kPhiloxBatch + i] = mean + drawn.second * deviation;
    }
  }
}

FloatBatches float_batches() { return {uniform_batch, normal_batch}; }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(float_batches);

namespace {

using kernels::kPhiloxBatch;

// The loops themselves, not the dispatcher's entry that looks for the processor's features at each call.
const FloatBatches& batches() {
  static const FloatBatches chosen = HWY_DYNAMIC_DISPATCH(float_batches)();
  return chosen;
}

// Double takes two words an element.
void uniform_batch_f64(std::uint64_t seed, std::uint64_t batch, double low, double scale, double last, double* to) {
  const std::uint64_t first = batch * kPhiloxBatch;
  for (std::int64_t i = 0; i < kPhiloxBatch; ++i) {
    const auto [w] =
        kernels::philox(seed, static_cast<std::uint32_t>(first + i), static_cast<std::uint32_t>(first >> 32));
    to[i] = std::min(last, low + kernels::unit_double(w[0], w[1]) * scale);
    to[kPhiloxBatch + i] = std::min(last, low + kernels::unit_double(w[2], w[3]) * scale);
  }
}

void normal_batch_f64(std::uint64_t seed, std::uint64_t batch, double mean, double deviation, double /*last*/,
                      double* to) {
  const std::uint64_t first = batch * kPhiloxBatch;
  for (std::int64_t i = 0; i < kPhiloxBatch; ++i) {
    const auto [w] =
        kernels::philox(seed, static_cast<std::uint32_t>(first + i), static_cast<std::uint32_t>(first >> 32));
    const auto drawn =
        kernels::box_muller(kernels::unit_double(w[0], w[1]) + 0x1p-53, kernels::unit_double(w[2], w[3]));
    to[i] = mean + drawn.first * deviation;
    to[kPhiloxBatch + i] = mean + drawn.second * deviation;
  }
}

float below(float value) { return std::nextafter(value, -HUGE_VALF); }
double below(double value) { return std::nextafter(value, -HUGE_VAL); }
template <class Half>
Half below(Half value) {
  constexpr std::uint16_t kSign = 0x8000, kSmallestNegative = 0x8001;
  if ((value.bits & ~kSign) == 0) {
    value.bits = kSmallestNegative;
  } else {
    value.bits = static_cast<std::uint16_t>((value.bits & kSign) != 0 ? value.bits + 1 : value.bits - 1);
  }
  return value;
}

// The largest T under `high`, but not under `low`.
template <class T>
kernels::Compute<T> last_below(double low, double high) {
  using C = kernels::Compute<T>;
  const T nearest = static_cast<T>(static_cast<C>(high));
  const C last =
      static_cast<double>(static_cast<C>(nearest)) < high ? static_cast<C>(nearest) : static_cast<C>(below(nearest));
  return std::max(last, static_cast<C>(low));
}

// Fills y with `size` elements a batch, of which the first may begin before y and the last may end after it.
template <class T>
void generate(const TensorView& y, const ops::RandomAttributes& attributes, std::int64_t size,
              Batch<kernels::Compute<T>> batch, double scale) {
  using C = kernels::Compute<T>;
  const std::int64_t count = y.numel();
  if (count == 0) return;
  const auto batch_size = static_cast<std::uint64_t>(size);
  const std::uint64_t first = attributes.offset / batch_size;
  const auto batches =
      static_cast<std::int64_t>((attributes.offset + static_cast<std::uint64_t>(count) - 1) / batch_size - first + 1);
  const auto lead = static_cast<std::int64_t>(attributes.offset % batch_size);
  const C a = static_cast<C>(attributes.low), b = static_cast<C>(scale);
  const C last = last_below<T>(attributes.low, attributes.high);
  parallel_for(batches, kElementGrain / size, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) C buffer[4 * kPhiloxBatch];
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t from = i * size - lead;
      const std::int64_t low = std::max<std::int64_t>(from, 0), high = std::min(from + size, count);
      const bool whole = high - low == size && std::is_same_v<T, C>;
      C* const to = whole ? reinterpret_cast<C*>(y.as<T>() + from) : buffer;
      batch(attributes.seed, first + static_cast<std::uint64_t>(i), a, b, last, to);
      if (whole) continue;
      for (std::int64_t j = low; j < high; ++j) y.as<T>()[j] = kernels::store<T>(buffer[j - from]);
    }
  });
}

void generate(const KernelContext& context, Batch<float> batch, Batch<double> batch_f64, double scale) {
  const TensorView& y = context.out();
  const auto& attributes = context.attributes.as<ops::RandomAttributes>();
  visit_floats(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, double>) {
      generate<T>(y, attributes, 2 * kPhiloxBatch, batch_f64, scale);
    } else {
      generate<T>(y, attributes, 4 * kPhiloxBatch, batch, scale);
    }
  });
}

}  // namespace

void uniform(const KernelContext& context) {
  const auto& attributes = context.attributes.as<ops::RandomAttributes>();
  generate(context, batches().uniform, uniform_batch_f64, attributes.high - attributes.low);
}

void normal(const KernelContext& context) {
  const auto& attributes = context.attributes.as<ops::RandomAttributes>();
  generate(context, batches().normal, normal_batch_f64, attributes.high);
}

}  // namespace ferry::cpu_backend
#endif
