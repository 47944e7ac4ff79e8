// One row of a pooling result, as the launcher in pool2d.cpp hands it to the loops in pool2d_loops.cpp.
//
// A position (h, w) of a plane holds `lanes` neighbouring elements that are pooled alike: all channels in channels-last
// order, one element otherwise.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/device/kernel.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {

// One spatial axis of a pooling.
struct PoolAxis {
  std::int64_t input, output, kernel, stride, padding;

  struct Range {
    std::int64_t begin, end;
  };
  // Window positions of output `o` that lie inside the input.
  Range window(std::int64_t o) const {
    const std::int64_t first = o * stride - padding;
    return {std::max<std::int64_t>(0, -first), std::min(kernel, input - first)};
  }
  // Outputs whose window holds input `i`.
  Range outputs(std::int64_t i) const {
    const std::int64_t past = i + padding - kernel;
    return {past < 0 ? 0 : past / stride + 1, std::min(output, (i + padding) / stride + 1)};
  }
};

// Where a plane's element (h, w, lane 0) lies; lanes are neighbours.
struct PoolPlane {
  void* data = nullptr;
  std::int64_t h = 0, w = 0;  // strides in elements
};

struct PoolRow {
  PoolAxis h, w;
  std::int64_t lanes;
  std::int64_t row;        // of y when pooling forward, of dx when pooling backward
  bool count_include_pad;  // average only
  PoolPlane x, y, index;   // x and y or their gradients
  // For each position of the row along w: its window, or the outputs that hold it.
  const PoolAxis::Range* columns;
};

// Loops for one dtype; those on an index are listed for u8, then i32.
struct PoolLoops {
  void (*max[2])(const PoolRow& row);
  void (*max_backward[2])(const PoolRow& row);
  void (*average)(const PoolRow& row);
  void (*average_backward)(const PoolRow& row);
};

// Requires: dtype f32 or f64.
const PoolLoops& pool_loops(DType dtype);

}  // namespace ferry::cpu_backend
