#include "tests/support/generators.h"

#include <algorithm>
#include <cmath>

#include <ferry/error.h>
#include <ferry/ops.h>

namespace ferry::test {
namespace {

// Calls f with a value of the dtype's C++ type.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(float16{});
    case DType::bf16:
      return f(bfloat16{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
  throw InvalidArgument("no such dtype");
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

std::vector<int> reversed_axes(int rank) {
  std::vector<int> axes;
  for (int i = rank - 1; i >= 0; --i) axes.push_back(i);
  return axes;
}

Shape reversed(const Shape& shape) {
  Shape result = shape;
  std::ranges::reverse(result);
  return result;
}

constexpr std::int64_t kBefore = 2, kAround = 3;

Shape widened(const Shape& shape) {
  Shape result = shape;
  result.back() += kAround;
  return result;
}

Shape first_of(const Shape& shape) {
  Shape result = shape;
  result[0] = 1;
  return result;
}

Array narrowed(const Array& base, const Shape& shape) {
  Dims starts;
  for (int axis = 0; axis < shape.rank(); ++axis) starts.push_back(axis + 1 == shape.rank() ? kBefore : 0);
  return sliced(base, starts, Dims::filled(shape.rank(), 1), shape);
}

}  // namespace

Array random_array(const Shape& shape, double low, double high, DType dtype, Random& random) {
  std::uniform_real_distribution<double> distribution(low, high);
  Array array = Array::filled(shape, 0);
  for (double& value : array.values) {
    value = distribution(random);
    if (!is_floating(dtype)) value = std::floor(value);
    value = with_type(dtype, [value]<class T>(T) { return to_double(from_double<T>(value)); });
  }
  return array;
}

Tensor to_tensor(const Array& array, DType dtype) {
  return with_type(dtype, [&]<class T>(T) {
    std::vector<T> values;
    for (const double value : array.values) values.push_back(from_double<T>(value));
    return from_vector(values, array.shape);
  });
}

Array to_array(const Tensor& tensor) {
  return with_type(tensor.dtype(), [&]<class T>(T) {
    Array array{tensor.shape(), {}};
    for (const T value : tensor.to_vector<T>()) array.values.push_back(to_double<T>(value));
    return array;
  });
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> kLayouts = {
      {"contiguous", [](const Shape&) { return true; }, [](const Shape& shape) { return shape; },
       [](const Tensor& base, const Shape&) { return base; }, [](const Array& base, const Shape&) { return base; }},
      {"transposed", [](const Shape& shape) { return shape.rank() >= 2; }, reversed,
       [](const Tensor& base, const Shape& shape) { return permute(base, reversed_axes(shape.rank())); },
       [](const Array& base, const Shape& shape) { return permuted(base, reversed_axes(shape.rank())); }},
      {"narrowed", [](const Shape& shape) { return shape.rank() >= 1; }, widened,
       [](const Tensor& base, const Shape& shape) { return narrow(base, -1, kBefore, shape.back()); }, narrowed},
      {"expanded", [](const Shape& shape) { return shape.rank() >= 1; }, first_of,
       [](const Tensor& base, const Shape& shape) { return expand(base, shape); }, expanded},
      {"channels_last", [](const Shape& shape) { return shape.rank() == 4; },
       [](const Shape& shape) {
         return Shape{shape[0], shape[2], shape[3], shape[1]};
       },
       [](const Tensor& base, const Shape&) {
         return permute(base, {0, 3, 1, 2});
       },
       [](const Array& base, const Shape&) {
         return permuted(base, {0, 3, 1, 2});
       }},
  };
  return kLayouts;
}

const Layout& layout_for(const Shape& shape, std::size_t variant) {
  std::vector<const Layout*> fitting;
  for (const Layout& layout : layouts()) {
    if (layout.fits(shape)) fitting.push_back(&layout);
  }
  return *fitting[variant % fitting.size()];
}

double rounding(DType dtype, double scale) {
  switch (dtype) {
    case DType::f64:
      return scale * 1e-12;
    case DType::f32:
      return scale * 4e-6;
    case DType::f16:
      return scale * 2e-3;
    case DType::bf16:
      return scale * 1.6e-2;
    default:
      return 0;
  }
}

}  // namespace ferry::test
