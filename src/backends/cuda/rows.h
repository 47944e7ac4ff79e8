// Rows along an axis, each worked on by a team of threads, and what softmax and the losses of classes take of them.
#pragma once

#include <limits>

#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/kernels/math.h"

namespace ferry::cuda_backend {

// Rows along one axis of a dense array: element i of row r is at first(r) + i * inner.
struct Rows {
  std::int64_t count = 1, length = 1, inner = 1;

  Rows(const Shape& shape, int axis) : length(shape[axis]) {
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis) count *= shape[i];
      if (i > axis) inner *= shape[i];
    }
  }
  FERRY_FUNCTOR std::int64_t first(std::int64_t row) const { return row / inner * length * inner + row % inner; }
};

// What exponentials of a row are taken relative to: its largest element, 0 where that is not finite.
template <class C, class T>
FERRY_FUNCTOR C anchor_of(const Rows& rows, const T* x, const Team& team) {
  C largest = -std::numeric_limits<C>::infinity();
  for (std::int64_t i = team.rank; i < rows.length; i += team.size) {
    largest = MaxOf{}(largest, C(load(x[i * rows.inner])));
  }
  largest = team.all(largest, MaxOf{});
  return largest - largest == C(0) ? largest : C(0);
}

template <class C, class T>
FERRY_FUNCTOR C exponential_sum(const Rows& rows, const T* x, C anchor, const Team& team) {
  C sum = 0;
  for (std::int64_t i = team.rank; i < rows.length; i += team.size) {
    sum += kernels::exp(C(load(x[i * rows.inner])) - anchor);
  }
  return team.all(sum, SumOf{});
}

}  // namespace ferry::cuda_backend
