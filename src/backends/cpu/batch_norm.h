// The loops of batch normalisation, over a matrix [rows, lanes] whose rows are contiguous.
//
// In channels-last order a row is a position and a lane a channel; `lanes` numbers of each statistic are given. In
// contiguous order the same loops would step through memory, so there is a second set for one channel's plane, a run of
// neighbouring elements that share one number of each statistic.
#pragma once

#include <cstdint>

#include "src/device/kernel.h"
#include "src/kernels/functor.h"

namespace ferry::cpu_backend {

// Statistics are kept in f64 between tasks, whose results are combined in a fixed order. bf16 is read and written
// as it is and computed in f32.
template <class T>
struct BatchNormLoops {
  using C = kernels::Compute<T>;

  // mean[c] and the sum of squared differences from it, m2[c], of one task's elements.
  using Moments = void (*)(std::int64_t rows, std::int64_t lanes, const T* x, double* mean, double* m2);
  // sum[c] of dy, product[c] of dy (x - mean[c]).
  using Sums = void (*)(std::int64_t rows, std::int64_t lanes, const T* dy, const T* x, const C* mean, double* sum,
                        double* product);
  // y = (x - mean[c]) scale[c] + shift[c]
  using Apply = void (*)(std::int64_t rows, std::int64_t lanes, const T* x, const C* mean, const C* scale,
                         const C* shift, T* y);
  // dx = dy scale[c] + (x - mean[c]) slope[c] + shift[c]
  using Gradient = void (*)(std::int64_t rows, std::int64_t lanes, const T* dy, const T* x, const C* mean,
                            const C* scale, const C* slope, const C* shift, T* dx);

  Moments moments[2];  // by Order
  Sums sums[2];
  Apply apply[2];
  Apply apply_relu[2];  // relu of that
  Gradient gradient[2];
};

// The index of a loop. In `plane` order `rows` is 1 and `lanes` the number of elements of one channel.
enum BatchNormOrder : std::uint8_t { kChannelsLast = 0, kPlane = 1 };

// T: float, double or bfloat16.
template <class T>
const BatchNormLoops<T>& batch_norm_loops();

}  // namespace ferry::cpu_backend
