// What normalisations by channel share: their vectors in f64, and 16-bit calls.
#pragma once

#include <span>
#include <vector>

#include "src/device/kernel.h"

namespace ferry::cpu_backend {

using Vector = std::vector<double>;  // one number a channel

// A vector argument as f64, `fallback` where it was left out.
Vector read_vector(const KernelContext& context, const TensorView& view, std::int64_t channels, double fallback);

// Does nothing for an output that was left out.
void write_vector(const KernelContext& context, const Vector& values, const TensorView& view);

template <class T>
std::vector<T> narrowed(const Vector& values) {
  return {values.begin(), values.end()};
}

TensorView optional_view(std::span<const TensorView> views, std::size_t i);

// Whether the call was done by other means: on f32 copies of 16-bit floats.
bool done_in_f32(const KernelContext& context, Kernel self);

}  // namespace ferry::cpu_backend
