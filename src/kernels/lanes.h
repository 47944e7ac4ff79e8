// Reductions in a fixed order that vectorises: kLanes partial results, element i in lane i % kLanes, folded pairwise.
#pragma once

#include <limits>

#include "src/kernels/elementwise.h"

namespace ferry::kernels {

constexpr int kLanes = 32;

// combine over term(i) for i in [0, n), with `identity` for none.
template <class C, class Combine, class Term>
FERRY_FUNCTOR C lane_reduce(std::int64_t n, C identity, const Combine& combine, const Term& term) {
  C lanes[kLanes];
  for (int j = 0; j < kLanes; ++j) lanes[j] = identity;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = combine(lanes[j], term(i + j));
  }
  for (int j = 0; i + j < n; ++j) lanes[j] = combine(lanes[j], term(i + j));
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] = combine(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

template <class C, class Term>
FERRY_FUNCTOR C lane_sum(std::int64_t n, const Term& term) {
  return lane_reduce(n, C(0), Add{}, term);
}

// Of floats.
template <class C, class Term>
FERRY_FUNCTOR C lane_max(std::int64_t n, const Term& term) {
  return lane_reduce(n, -std::numeric_limits<C>::infinity(), Maximum{}, term);
}

}  // namespace ferry::kernels
