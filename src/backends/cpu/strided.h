// Walking strided arrays of one shape together: axes are reordered by the first operand's strides and merged where all
// operands allow, so that the inner loop is as long as it can be (one flat loop for dense arrays of equal strides).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/backends/cpu/parallel.h"
#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// Elements that one task handles; smaller calls run in the calling thread.
constexpr std::int64_t kElementGrain = 32768;

template <std::size_t N>
struct StridedWalk {
  int rank = 0;            // after merging; axis rank - 1 is the inner one
  std::int64_t count = 0;  // elements
  std::array<std::int64_t, kMaxRank> extents{};
  std::array<std::array<std::int64_t, N>, kMaxRank> strides{};  // in bytes, by axis and operand
  std::array<std::byte*, N> data{};

  std::int64_t inner() const { return rank == 0 ? 1 : extents[rank - 1]; }
  std::array<std::int64_t, N> inner_strides() const {
    return rank == 0 ? std::array<std::int64_t, N>{} : strides[rank - 1];
  }
};

// The walk over `views`, all of views[0]'s shape.
template <std::size_t N>
StridedWalk<N> make_walk(const std::array<const TensorView*, N>& views);

extern template StridedWalk<1> make_walk<1>(const std::array<const TensorView*, 1>&);
extern template StridedWalk<2> make_walk<2>(const std::array<const TensorView*, 2>&);
extern template StridedWalk<3> make_walk<3>(const std::array<const TensorView*, 3>&);
extern template StridedWalk<4> make_walk<4>(const std::array<const TensorView*, 4>&);

// Calls row(n, pointers) for the elements [begin, end) of the walk, in pieces of n elements along the inner axis.
template <std::size_t N, class Row>
void walk_range(const StridedWalk<N>& walk, std::int64_t begin, std::int64_t end, const Row& row) {
  const std::int64_t inner = walk.inner();
  const auto inner_strides = walk.inner_strides();
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t rest = begin;
  auto at = walk.data;
  for (int axis = walk.rank - 1; axis >= 0; --axis) {
    index[axis] = rest % walk.extents[axis];
    rest /= walk.extents[axis];
    for (std::size_t i = 0; i < N; ++i) at[i] += index[axis] * walk.strides[axis][i];
  }
  std::int64_t position = walk.rank == 0 ? 0 : index[walk.rank - 1];
  while (begin < end) {
    const std::int64_t n = std::min(inner - position, end - begin);
    row(n, at);
    begin += n;
    for (std::size_t i = 0; i < N; ++i) at[i] -= position * inner_strides[i];
    position = 0;
    for (int axis = walk.rank - 2; axis >= 0; --axis) {
      for (std::size_t i = 0; i < N; ++i) at[i] += walk.strides[axis][i];
      if (++index[axis] < walk.extents[axis]) break;
      index[axis] = 0;
      for (std::size_t i = 0; i < N; ++i) at[i] -= walk.extents[axis] * walk.strides[axis][i];
    }
  }
}

template <std::size_t N, class Row>
void parallel_walk(const StridedWalk<N>& walk, const Row& row) {
  parallel_for(walk.count, kElementGrain,
               [&](std::int64_t begin, std::int64_t end) { walk_range(walk, begin, end, row); });
}

// The number of elements if all views are contiguous and of equal shape, else -1.
template <class... Views>
std::int64_t contiguous_count(const TensorView& first, const Views&... others) {
  std::int64_t expected = 1;
  for (int axis = first.shape.rank() - 1; axis >= 0; --axis) {
    const std::int64_t extent = first.shape[axis];
    if (extent == 1) continue;
    if (first.strides[axis] != expected || ((others.strides[axis] != expected) || ...)) return extent == 0 ? 0 : -1;
    expected *= extent;
  }
  return expected;
}

}  // namespace ferry::cpu_backend
