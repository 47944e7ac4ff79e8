// Rows along one axis of strided arrays: for kernels that compute each row from itself.
#pragma once

#include "src/backends/cpu/strided.h"

namespace ferry::cpu_backend {

// The view of the first element of each row along `axis`.
inline TensorView row_starts(const TensorView& x, int axis) {
  TensorView starts = x;
  starts.shape[axis] = std::min<std::int64_t>(1, x.shape[axis]);
  return starts;
}

// Calls row(pointers) for each row along `axis` of views that agree in the other axes, in parallel.
template <std::size_t N, class Row>
void for_each_row(const std::array<TensorView, N>& views, int axis, const Row& row) {
  const std::int64_t length = std::max<std::int64_t>(1, views[0].shape[axis]);
  std::array<TensorView, N> starts;
  std::array<const TensorView*, N> pointers;
  for (std::size_t i = 0; i < N; ++i) {
    starts[i] = row_starts(views[i], axis);
    pointers[i] = &starts[i];
  }
  const auto walk = make_walk<N>(pointers);
  const auto steps = walk.inner_strides();
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / length);
  parallel_for(walk.count, grain, [&](std::int64_t begin, std::int64_t end) {
    walk_range(walk, begin, end, [&](std::int64_t n, const auto& at) {
      for (std::int64_t i = 0; i < n; ++i) {
        auto element = at;
        for (std::size_t k = 0; k < N; ++k) element[k] += i * steps[k];
        row(element);
      }
    });
  });
}

}  // namespace ferry::cpu_backend
