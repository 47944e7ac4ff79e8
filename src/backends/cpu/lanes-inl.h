// kernels::lane_reduce (reduce_lanes here) with its fold in vectors, compiled for each instruction set of simd.h.
// Included once for each.
//
// Compilers unroll the fold's short loops before they would vectorise them, which takes longer than a row of a hundred
// elements. The order is that of lane_reduce, so both give the same bits.
#if defined(FERRY_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRY_LANES_INL_H_
#undef FERRY_LANES_INL_H_
#else
#define FERRY_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include "src/kernels/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
template <class C, class Combine>
FERRY_FUNCTOR C fold_lanes(const C* lanes, Combine combine) {
  C folded[kernels::kLanes];
  for (int j = 0; j < kernels::kLanes; ++j) folded[j] = lanes[j];
  for (int width = kernels::kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) folded[j] = combine(folded[j], folded[j + width]);
  }
  return folded[0];
}
#else
template <class V>
FERRY_FUNCTOR V combine_vectors(kernels::Add, V a, V b) {
  return hwy::HWY_NAMESPACE::Add(a, b);
}
template <class V>
FERRY_FUNCTOR V combine_vectors(kernels::Maximum, V a, V b) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::Ne(a, a)), a, b);
}

// Lane j and lane j + half, until one is left.
template <class D, class Combine>
FERRY_FUNCTOR auto fold_vector(D, Combine combine, hwy::HWY_NAMESPACE::VFromD<D> v) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> half;
    return fold_vector(half, combine, combine_vectors(combine, hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// The kLanes numbers combined pairwise.
template <class C, class Combine>
FERRY_FUNCTOR C fold_lanes(const C* lanes, Combine combine) {
  namespace hn = hwy::HWY_NAMESPACE;
  using D = hn::CappedTag<C, kernels::kLanes>;
  constexpr int kWidth = static_cast<int>(hn::MaxLanes(D()));
  constexpr int kVectors = kernels::kLanes / kWidth;
  hn::VFromD<D> vectors[kVectors];
  FERRY_UNROLL
  for (int i = 0; i < kVectors; ++i) vectors[i] = hn::LoadU(D(), lanes + i * kWidth);
  FERRY_UNROLL
  for (int count = kVectors / 2; count > 0; count /= 2) {
    FERRY_UNROLL
    for (int i = 0; i < count; ++i) vectors[i] = combine_vectors(combine, vectors[i], vectors[i + count]);
  }
  return fold_vector(D(), combine, vectors[0]);
}
#endif

// As kernels::lane_reduce, of floats.
template <class C, class Combine, class Term>
FERRY_FUNCTOR C reduce_lanes(std::int64_t n, C identity, const Combine& combine, const Term& term) {
  alignas(64) C lanes[kernels::kLanes];
  for (int j = 0; j < kernels::kLanes; ++j) lanes[j] = identity;
  std::int64_t i = 0;
  for (; i + kernels::kLanes <= n; i += kernels::kLanes) {
    for (int j = 0; j < kernels::kLanes; ++j) lanes[j] = combine(lanes[j], term(i + j));
  }
  for (int j = 0; i + j < n; ++j) lanes[j] = combine(lanes[j], term(i + j));
  return fold_lanes(lanes, combine);
}

template <class C, class Term>
FERRY_FUNCTOR C sum_lanes(std::int64_t n, const Term& term) {
  return reduce_lanes(n, C(0), kernels::Add{}, term);
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FERRY_LANES_INL_H_
