#include "src/backends/cpu/strided.h"

#include <cstdlib>

namespace ferry::cpu_backend {
namespace {

// Whether stepping over all of `inner` is one step of `outer`, for every operand.
template <std::size_t N>
bool can_merge(const std::array<std::int64_t, N>& outer, const std::array<std::int64_t, N>& inner,
               std::int64_t inner_extent) {
  for (std::size_t i = 0; i < N; ++i) {
    if (outer[i] != inner[i] * inner_extent) return false;
  }
  return true;
}

// Whether axis strides `a` belong outside `b`: by the first operand that tells them apart.
template <std::size_t N>
bool is_outer(const std::array<std::int64_t, N>& a, const std::array<std::int64_t, N>& b) {
  for (std::size_t i = 0; i < N; ++i) {
    if (std::abs(a[i]) != std::abs(b[i])) return std::abs(a[i]) > std::abs(b[i]);
  }
  return false;
}

template <std::size_t N>
void insert_axis(StridedWalk<N>& walk, std::int64_t extent, const std::array<std::int64_t, N>& strides) {
  int place = walk.rank++;
  for (; place > 0 && is_outer<N>(strides, walk.strides[place - 1]); --place) {
    walk.extents[place] = walk.extents[place - 1];
    walk.strides[place] = walk.strides[place - 1];
  }
  walk.extents[place] = extent;
  walk.strides[place] = strides;
}

template <std::size_t N>
void merge_axes(StridedWalk<N>& walk) {
  int last = 0;
  for (int axis = 1; axis < walk.rank; ++axis) {
    if (can_merge<N>(walk.strides[last], walk.strides[axis], walk.extents[axis])) {
      walk.extents[last] *= walk.extents[axis];
    } else {
      walk.extents[++last] = walk.extents[axis];
    }
    walk.strides[last] = walk.strides[axis];
  }
  if (walk.rank > 0) walk.rank = last + 1;
}

}  // namespace

template <std::size_t N>
StridedWalk<N> make_walk(const std::array<const TensorView*, N>& views) {
  StridedWalk<N> walk;
  const Shape& shape = views[0]->shape;
  walk.count = shape.product();
  for (std::size_t i = 0; i < N; ++i) walk.data[i] = views[i]->template as<std::byte>();
  if (walk.count == 0) return walk;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    std::array<std::int64_t, N> strides;
    for (std::size_t i = 0; i < N; ++i) strides[i] = views[i]->strides[axis] * size_of(views[i]->dtype);
    insert_axis<N>(walk, shape[axis], strides);
  }
  merge_axes(walk);
  return walk;
}

template StridedWalk<1> make_walk<1>(const std::array<const TensorView*, 1>&);
template StridedWalk<2> make_walk<2>(const std::array<const TensorView*, 2>&);
template StridedWalk<3> make_walk<3>(const std::array<const TensorView*, 3>&);
template StridedWalk<4> make_walk<4>(const std::array<const TensorView*, 4>&);
template StridedWalk<5> make_walk<5>(const std::array<const TensorView*, 5>&);

}  // namespace ferry::cpu_backend
