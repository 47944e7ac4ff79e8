// Conversion between element types: to integers truncates and saturates (NaN gives 0), to bool is x != 0.
#pragma once

#include <limits>

#include "src/kernels/functor.h"

namespace ferry::kernels {

template <class To, class From>
FERRY_FUNCTOR To convert(From stored) {
  const auto x = load(stored);
  using X = Compute<From>;
  if constexpr (std::is_same_v<To, From>) {
    return stored;
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != X(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<X>) {
    // The bounds as floats; the upper one is a power of two, one above the largest integer.
    constexpr X kLow = static_cast<X>(std::numeric_limits<To>::min());
    constexpr X kEnd = static_cast<X>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * X(2);
    if (x != x) return To(0);
    if (x >= kEnd) return std::numeric_limits<To>::max();
    return x <= kLow ? std::numeric_limits<To>::min() : static_cast<To>(x);
  } else if constexpr (is_half<To>) {
    return To(static_cast<float>(x));
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace ferry::kernels
