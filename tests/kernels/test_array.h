// Strided arrays for kernel tests: any dtype and layout, element access by logical index as double, and calls of host
// kernels by name.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "src/backends/cpu/cpu_driver.h"
#include "src/device/kernel.h"
#include "src/kernels/convert.h"

namespace ferry::testing {

enum class Layout { contiguous, reversed, gaps, expanded, channels_last };
constexpr Layout kLayouts[] = {Layout::contiguous, Layout::reversed, Layout::gaps, Layout::expanded,
                               Layout::channels_last};

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
constexpr DType kNumeric[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8};

// Calls body(T{}) for the C++ type of a dtype.
template <class Body>
auto with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::f32:
      return body(float{});
    case DType::f64:
      return body(double{});
    case DType::f16:
      return body(float16{});
    case DType::bf16:
      return body(bfloat16{});
    case DType::i32:
      return body(std::int32_t{});
    case DType::i64:
      return body(std::int64_t{});
    case DType::u8:
      return body(std::uint8_t{});
    default:
      return body(bool{});
  }
}

// `value` as the dtype stores it.
inline double rounded(DType dtype, double value) {
  return with_type(dtype, [&](auto t) {
    using T = decltype(t);
    return static_cast<double>(kernels::load(kernels::convert<T>(value)));
  });
}

class Array {
 public:
  Array(DType dtype, Shape shape, Layout layout = Layout::contiguous) : dtype_(dtype), shape_(shape) {
    strides_ = strides_for(layout);
    std::int64_t last = 0;
    for (int i = 0; i < shape.rank(); ++i) last += std::max<std::int64_t>(0, shape[i] - 1) * strides_[i];
    // Guards on both sides show writes outside.
    bytes_.assign(static_cast<std::size_t>((last + 1) * size_of(dtype)) + 2 * kGuard, kGuardByte);
  }

  static Array of(DType dtype, Shape shape, const std::vector<double>& values) {
    Array array(dtype, shape);
    for (std::size_t i = 0; i < values.size(); ++i) array.set(static_cast<std::int64_t>(i), values[i]);
    return array;
  }

  // Integers in [low, high] for every dtype, halves of them for floats.
  template <class Generator>
  Array& randomize(Generator& generator, int low = -20, int high = 20) {
    if (dtype_ == DType::u8) low = std::max(low, 0);
    if (dtype_ == DType::boolean) low = 0, high = 1;
    std::uniform_int_distribution<int> pick(low, high);
    for (std::int64_t i = 0; i < numel(); ++i) set(i, is_floating(dtype_) ? pick(generator) * 0.375 : pick(generator));
    return *this;
  }

  TensorView view() { return {numel() == 0 ? nullptr : bytes_.data() + kGuard, dtype_, true, shape_, strides_}; }
  std::int64_t numel() const { return shape_.product(); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

  double get(std::int64_t i) const {
    return with_type(dtype_, [&](auto t) {
      std::memcpy(&t, bytes_.data() + offset(i), sizeof t);
      return static_cast<double>(kernels::load(t));
    });
  }
  void set(std::int64_t i, double value) {
    with_type(dtype_, [&](auto t) {
      t = kernels::convert<decltype(t)>(value);
      std::memcpy(bytes_.data() + offset(i), &t, sizeof t);
    });
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for (std::int64_t i = 0; i < numel(); ++i) all.push_back(get(i));
    return all;
  }
  bool guards_intact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (bytes_[i] != kGuardByte || bytes_[bytes_.size() - 1 - i] != kGuardByte) return false;
    }
    return true;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0x5a};

  Strides strides_for(Layout layout) const {
    Strides strides = contiguous_strides(shape_);
    if (layout == Layout::channels_last && shape_.rank() == 4) return channels_last_strides(shape_);
    if (layout == Layout::expanded && shape_.rank() > 0) strides[shape_.rank() / 2] = 0;
    if (layout == Layout::gaps) {
      for (auto& stride : strides) stride = stride * 2 + (&stride == strides.begin() ? 1 : 0);
    }
    if (layout == Layout::reversed) {
      std::int64_t step = 1;
      for (int i = 0; i < shape_.rank(); ++i) {
        strides[i] = step;
        step *= std::max<std::int64_t>(1, shape_[i]);
      }
    }
    return strides;
  }

  std::size_t offset(std::int64_t i) const {
    std::int64_t place = 0;
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      place += i % shape_[axis] * strides_[axis];
      i /= shape_[axis];
    }
    return kGuard + static_cast<std::size_t>(place * size_of(dtype_));
  }

  DType dtype_;
  Shape shape_;
  Strides strides_;
  std::vector<std::byte> bytes_;
};

inline Kernel kernel(std::string_view op) {
  for (const KernelEntry& entry : cpu_kernels()) {
    if (entry.op == op) return entry.kernel;
  }
  throw InvalidArgument("no host kernel " + std::string(op));
}

inline void run(std::string_view op, std::vector<TensorView> inputs, std::vector<TensorView> outputs,
                const Attributes& attributes = {}) {
  kernel(op)({op, inputs, outputs, attributes});
}

// The message of the error that the call throws; "" when it throws none.
template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

// Shapes of every rank up to 4, with extents of 0 and 1, odd sizes, and one past the size that threads share.
inline std::vector<Shape> test_shapes() {
  return {{},      {1},     {7},       {8},          {0},          {3, 0, 2}, {5, 9},
          {1, 33}, {64, 3}, {2, 3, 4}, {2, 5, 3, 4}, {3, 1, 7, 5}, {41, 1001}};
}

}  // namespace ferry::testing
