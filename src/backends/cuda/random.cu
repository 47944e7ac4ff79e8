// uniform, normal and dropout: functions of the seed and an element's position in the stream alone.
#include <algorithm>
#include <cmath>

#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/philox.h"
#include "src/ops/activations.h"

namespace ferry::cuda_backend {
namespace {

template <class T>
struct Uniform {
  using C = Compute<T>;
  T* y;
  std::uint64_t seed, offset;
  C low, scale, last;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::uint64_t g = offset + static_cast<std::uint64_t>(i);
    C value;
    if constexpr (std::is_same_v<C, double>) {
      const PhiloxPlace place = philox_place<2>(g);
      const kernels::PhiloxWords w = words_at(seed, place.counter);
      value = low + kernels::unit_double(w.word[2 * place.word], w.word[2 * place.word + 1]) * scale;
    } else {
      const PhiloxPlace place = philox_place<4>(g);
      value = low + kernels::unit_float(words_at(seed, place.counter).word[place.word]) * scale;
    }
    y[i] = store<T>(value < last ? value : last);
  }
};

template <class T>
struct Normal {
  using C = Compute<T>;
  T* y;
  std::uint64_t seed, offset;
  C mean, deviation;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::uint64_t g = offset + static_cast<std::uint64_t>(i);
    C drawn;
    if constexpr (std::is_same_v<C, double>) {
      const PhiloxPlace place = philox_place<2>(g);
      const kernels::PhiloxWords w = words_at(seed, place.counter);
      const auto pair = kernels::box_muller(kernels::unit_double(w.word[0], w.word[1]) + 0x1p-53,
                                            kernels::unit_double(w.word[2], w.word[3]));
      drawn = place.word == 0 ? pair.first : pair.second;
    } else {
      const PhiloxPlace place = philox_place<4>(g);
      const kernels::PhiloxWords w = words_at(seed, place.counter);
      const int first = place.word & ~1;
      const auto pair =
          kernels::box_muller(kernels::unit_float(w.word[first]) + 0x1p-24f, kernels::unit_float(w.word[first + 1]));
      drawn = place.word == first ? pair.first : pair.second;
    }
    y[i] = store<T>(mean + drawn * deviation);
  }
};

template <class T>
struct Dropout {
  T* y;
  const T* x;
  std::uint64_t seed, offset;
  std::uint32_t threshold;
  Compute<T> scale;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const Compute<T> scaled = load(x[i]) * scale;
    const bool kept = is_kept(seed, offset + static_cast<std::uint64_t>(i), threshold);
    y[i] = store<T>(kept ? scaled : Compute<T>(0));
  }
};

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
Compute<T> last_below(double low, double high) {
  using C = Compute<T>;
  const T nearest = static_cast<T>(static_cast<C>(high));
  const C last =
      static_cast<double>(static_cast<C>(nearest)) < high ? static_cast<C>(nearest) : static_cast<C>(below(nearest));
  return std::max(last, static_cast<C>(low));
}

void uniform(const KernelContext& context) {
  const TensorView& y = context.out();
  const auto& a = context.attributes.as<ops::RandomAttributes>();
  visit_floats(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    for_each(y.numel(), Uniform<T>{y.as<T>(), a.seed, a.offset, static_cast<C>(a.low), static_cast<C>(a.high - a.low),
                                   last_below<T>(a.low, a.high)});
  });
}

void normal(const KernelContext& context) {
  const TensorView& y = context.out();
  const auto& a = context.attributes.as<ops::RandomAttributes>();
  visit_floats(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    for_each(y.numel(), Normal<T>{y.as<T>(), a.seed, a.offset, static_cast<C>(a.low), static_cast<C>(a.high)});
  });
}

void dropout(const KernelContext& context) {
  const TensorView &x = context.in(0), &y = context.out();
  const auto& a = context.attributes.as<ops::DropoutAttributes>();
  visit_floats(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(y.numel(), Dropout<T>{y.as<T>(), x.as<const T>(), a.seed, a.offset,
                                   static_cast<std::uint32_t>(std::ceil(std::ldexp(a.p, 24))),
                                   static_cast<Compute<T>>(1 / (1 - a.p))});
  });
}

constexpr KernelEntry kEntries[] = {{"uniform", uniform}, {"normal", normal}, {"dropout", dropout}};

}  // namespace

std::span<const KernelEntry> random_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
