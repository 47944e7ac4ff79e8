// Resampling of an image as a sparse linear map along each axis, and one row of a result as the launcher in
// resample2d.cpp hands it to the loops in resample2d_loops.cpp. Upsampling, adaptive pooling and the gradients of both,
// which apply the transposed maps, are the same loops.
#pragma once

#include <cstdint>
#include <vector>

#include <ferry/dtype.h>

namespace ferry::cpu_backend {

// y[o] = Σ weight[k] x[first[o] + k - begin[o]] over k in [begin[o], begin[o + 1]).
struct AxisMap {
  std::vector<std::int64_t> first, begin{0};
  std::vector<double> weight;

  std::int64_t outputs() const { return static_cast<std::int64_t>(first.size()); }
};

struct ResampleRow {
  const AxisMap &h, &w;
  std::int64_t row;       // of y
  std::int64_t lanes;     // neighbouring elements that are treated alike: all channels in channels-last order, else 1
  std::int64_t elements;  // of a row of x, lanes included
  const std::byte* x;     // the plane's first element
  std::int64_t x_row;     // distance of x's rows in elements
  std::byte* y;           // the row's first element
};

using ResampleLoop = void (*)(const ResampleRow& row);

// Throws: InvalidArgument for other dtypes than floats.
ResampleLoop resample_loop(DType dtype);

}  // namespace ferry::cpu_backend
