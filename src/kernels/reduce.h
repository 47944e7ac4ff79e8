// Reductions: how two values combine, in which types, and what nothing combines to.
#pragma once

#include <limits>

#include "src/kernels/elementwise.h"

namespace ferry::kernels {

// Lane: what a run of elements is accumulated in. Total: what runs are combined in; wider, so that the error of a long
// sum grows with the length of a run only.
struct SumReduction {
  template <class T>
  using Lane = Wrapping<Compute<T>>;
  template <class T>
  using Total = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

  template <class A>
  static constexpr A identity() {
    return A(0);
  }
  template <class A>
  FERRY_FUNCTOR static A combine(A a, A b) {
    return a + b;
  }
};

struct MaxReduction {
  template <class T>
  using Lane = Compute<T>;
  template <class T>
  using Total = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

  template <class A>
  static constexpr A identity() {
    return std::numeric_limits<A>::has_infinity ? -std::numeric_limits<A>::infinity()
                                                : std::numeric_limits<A>::lowest();
  }
  template <class A>
  FERRY_FUNCTOR static A combine(A a, A b) {
    return Maximum{}(a, b);
  }
};

}  // namespace ferry::kernels
