// What the tests of host kernels share: tensors of random values in any dtype and memory order, kernels called by name,
// and comparison with a reference in f64.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "src/backends/cpu/cpu_driver.h"
#include "src/device/kernel.h"
#include "src/ops/attributes.h"

namespace ferry::test {

enum class Order : std::uint8_t { contiguous, channels_last };

// A tensor that owns its memory. Elements are read and written as f64 by their logical index.
class Array {
 public:
  Array() = default;  // an optional argument left out
  Array(Shape shape, DType dtype, Order order = Order::contiguous);
  Array(Shape shape, DType dtype, Strides strides);

  // Values in [-1, 1) that the dtype holds exactly.
  Array& randomize(std::uint32_t seed);
  Array& fill(double value);

  double at(std::int64_t row_major_index) const;
  void set(std::int64_t row_major_index, double value);
  const Shape& shape() const { return view_.shape; }
  std::int64_t numel() const { return view_.numel(); }
  DType dtype() const { return view_.dtype; }
  // All elements, row-major.
  std::vector<double> values() const;
  TensorView view() const;
  // The same memory seen with two axes exchanged.
  TensorView transposed(int a, int b) const;

 private:
  std::int64_t offset(std::int64_t row_major_index) const;

  TensorView view_;
  std::vector<std::byte> memory_;
};

// Calls the host kernel of that name.
void run(std::string_view op, const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs,
         const Attributes& attributes = ops::FillAttributes{});

// Relative to the reference's largest value: what the dtype and the length of the sums allow.
double tolerance(DType dtype);

// Every element within `tolerance` of the largest reference value.
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance,
                  const std::string& what);

inline const std::vector<DType> kFloats = {DType::f32, DType::f64, DType::f16, DType::bf16};

// Names a case by its `dtype` and the orders of its `x` and `y`.
template <class Parameter>
std::string parameter_name(const testing::TestParamInfo<Parameter>& info) {
  const auto name = [](Order order) { return order == Order::contiguous ? "contiguous" : "channels_last"; };
  return std::string(name_of(info.param.dtype)) + "_x_" + name(info.param.x) + "_y_" + name(info.param.y);
}

}  // namespace ferry::test
