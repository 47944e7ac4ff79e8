// Gradients of depthwise convolutions (one channel a group, in and out) where oneDNN computes them as if groups were
// full blocks of channels: dilated ones, and the weight's for other kernels than 3 x 3. One row, or one stretch of
// images, as the launcher in conv2d_depthwise.cpp hands it to the loops in conv2d_depthwise_loops.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include <ferry/dtype.h>

namespace ferry::cpu_backend {

struct DepthwiseAxis {
  std::int64_t input, output, kernel, stride, padding, dilation;

  // Input position that kernel position k reads at output `at`; outside [0, input): padding.
  std::int64_t source(std::int64_t at, std::int64_t k) const { return at * stride - padding + k * dilation; }
  // Output that reads input position `at` through kernel position k; -1: none.
  std::int64_t target(std::int64_t at, std::int64_t k) const {
    const std::int64_t shifted = at + padding - k * dilation;
    return shifted < 0 || shifted % stride != 0 || shifted / stride >= output ? -1 : shifted / stride;
  }
};

// One row of dx in channels-last order.
struct DepthwiseInputRow {
  DepthwiseAxis h, w;
  std::int64_t channels, row;
  const std::int64_t* columns;  // [w.input, w.kernel]: w.target of each
  const float* weight;          // [h.kernel, w.kernel, channels]
  const std::byte* dy;          // the image's first element
  std::byte* dx;                // the row's first element
};

// What some images add to the weight's gradient, in channels-last order.
struct DepthwiseWeightSum {
  DepthwiseAxis h, w;
  std::int64_t channels, images;
  const std::byte *x, *dy;  // of the first image
  float* weight;            // [h.kernel, w.kernel, channels], added to
  float* bias;              // [channels], added to; null: not wanted
};

struct DepthwiseLoops {
  void (*input_row)(const DepthwiseInputRow&) = nullptr;
  void (*weight_sum)(const DepthwiseWeightSum&) = nullptr;
};

// Requires: f32 or bf16.
const DepthwiseLoops& depthwise_loops(DType dtype);

}  // namespace ferry::cpu_backend
