// Where the elements of several strided arrays of one shape lie: axes in the first array's order, merged where all
// allow.
#pragma once

#include <array>
#include <cstdint>

#include "src/device/kernel.h"
#include "src/kernels/functor.h"

namespace ferry::cuda_backend {

template <int N>
struct Layout {
  std::int64_t count = 0;
  std::int32_t rank = 0;
  bool flat = true;   // element i of every array is at i
  bool small = true;  // positions fit in 32 bits
  std::int64_t extent[kMaxRank] = {};
  std::int64_t stride[N][kMaxRank] = {};  // in elements

  // Offsets of the i-th element, in the first array's order.
  FERRY_FUNCTOR void find(std::int64_t i, std::int64_t (&at)[N]) const {
    if (flat) {
      for (int k = 0; k < N; ++k) at[k] = i;
    } else if (small) {
      walk(static_cast<std::uint32_t>(i), at);
    } else {
      walk(static_cast<std::uint64_t>(i), at);
    }
  }

 private:
  template <class Index>
  FERRY_FUNCTOR void walk(Index rest, std::int64_t (&at)[N]) const {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const Index length = static_cast<Index>(extent[axis]), next = rest / length;
      const auto position = static_cast<std::int64_t>(rest - next * length);
      for (int k = 0; k < N; ++k) at[k] += position * stride[k][axis];
      rest = next;
    }
  }
};

// Of `views`, all of views[0]'s shape.
template <int N>
Layout<N> make_layout(const std::array<const TensorView*, N>& views);

extern template Layout<1> make_layout<1>(const std::array<const TensorView*, 1>&);
extern template Layout<2> make_layout<2>(const std::array<const TensorView*, 2>&);
extern template Layout<3> make_layout<3>(const std::array<const TensorView*, 3>&);
extern template Layout<4> make_layout<4>(const std::array<const TensorView*, 4>&);
extern template Layout<5> make_layout<5>(const std::array<const TensorView*, 5>&);

}  // namespace ferry::cuda_backend
