#include "src/backends/cuda/layout.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace ferry::cuda_backend {
namespace {

// The axes of more than one element, outermost first in the first view's memory; equal strides keep their order.
std::array<int, kMaxRank> ordered_axes(const TensorView& first, int& rank) {
  std::array<int, kMaxRank> axes{};
  rank = 0;
  for (int axis = 0; axis < first.shape.rank(); ++axis) {
    if (first.shape[axis] != 1) axes[static_cast<std::size_t>(rank++)] = axis;
  }
  std::stable_sort(axes.begin(), axes.begin() + rank,
                   [&](int a, int b) { return std::abs(first.strides[a]) > std::abs(first.strides[b]); });
  return axes;
}

}  // namespace

template <int N>
Layout<N> make_layout(const std::array<const TensorView*, N>& views) {
  Layout<N> layout;
  const TensorView& first = *views[0];
  layout.count = first.numel();
  layout.small = layout.count <= std::numeric_limits<std::int32_t>::max();
  if (layout.count == 0) return layout;
  int rank = 0;
  const auto axes = ordered_axes(first, rank);
  for (int i = 0; i < rank; ++i) {
    const int axis = axes[static_cast<std::size_t>(i)], last = layout.rank - 1;
    bool merges = layout.rank > 0;
    for (int k = 0; k < N && merges; ++k) {
      merges = layout.stride[k][last] == views[static_cast<std::size_t>(k)]->strides[axis] * first.shape[axis];
    }
    const int to = merges ? last : layout.rank++;
    layout.extent[to] = merges ? layout.extent[to] * first.shape[axis] : first.shape[axis];
    for (int k = 0; k < N; ++k) layout.stride[k][to] = views[static_cast<std::size_t>(k)]->strides[axis];
  }
  for (int k = 0; k < N; ++k) layout.flat = layout.flat && (layout.rank == 0 || layout.stride[k][0] == 1);
  layout.flat = layout.flat && layout.rank <= 1;
  return layout;
}

template Layout<1> make_layout<1>(const std::array<const TensorView*, 1>&);
template Layout<2> make_layout<2>(const std::array<const TensorView*, 2>&);
template Layout<3> make_layout<3>(const std::array<const TensorView*, 3>&);
template Layout<4> make_layout<4>(const std::array<const TensorView*, 4>&);
template Layout<5> make_layout<5>(const std::array<const TensorView*, 5>&);

}  // namespace ferry::cuda_backend
