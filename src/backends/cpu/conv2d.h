// The three products of a 2-D convolution, as oneDNN and the reference loops both see them.
#pragma once

#include <string_view>

#include "src/device/kernel.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {

enum class Conv2dProduct : std::uint8_t { forward, backward_input, backward_weight };

// The tensors by their place in y = conv(x, w) + bias, or their gradients. `bias` need not be given.
struct Conv2dArguments {
  Conv2dProduct product;
  TensorView x, w, bias, y;
  const ops::Conv2dAttributes& attributes;
};

// Plain loops in f64, which add in a fixed order.
void conv2d_f64(const Conv2dArguments& arguments);

// Whether each channel is convolved by itself.
bool is_depthwise(const Conv2dArguments& arguments);

// One of the two gradients of a depthwise convolution by loops over its channels, which lie side by side: images of
// another order are reordered first. Adds in an order that depends on the shapes alone.
// Requires: is_depthwise(), f32 or bf16, not empty.
void conv2d_depthwise(std::string_view op, const Conv2dArguments& arguments);

}  // namespace ferry::cpu_backend
