#include "tests/kernels_dnn/kernel_case.h"

#include <algorithm>
#include <random>

namespace ferry::test {
namespace {

constexpr std::byte kUntouched{0xa5};

template <class T>
double load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
void store(std::byte* at, double value) {
  T narrowed;
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    narrowed = T(static_cast<float>(value));
  } else {
    narrowed = static_cast<T>(value);
  }
  std::memcpy(at, &narrowed, sizeof(T));
}

Strides strides_in(const Shape& shape, Order order) {
  return order == Order::contiguous || shape.rank() != 4 ? contiguous_strides(shape) : channels_last_strides(shape);
}

}  // namespace

Array::Array(Shape shape, DType dtype, Order order) : Array(shape, dtype, strides_in(shape, order)) {}

Array::Array(Shape shape, DType dtype, Strides strides) {
  view_ = {.data = nullptr, .dtype = dtype, .given = true, .shape = shape, .strides = strides};
  std::int64_t last = 0;
  for (int i = 0; i < shape.rank(); ++i) last += std::max<std::int64_t>(0, shape[i] - 1) * strides[i];
  const std::int64_t elements = shape.product() == 0 ? 0 : last + 1;
  memory_.assign(static_cast<std::size_t>(elements * size_of(dtype)), kUntouched);
}

Array& Array::randomize(std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> sixty_fourths(-64, 63);
  for (std::int64_t i = 0; i < numel(); ++i) set(i, sixty_fourths(generator) / 64.0);
  return *this;
}

Array& Array::fill(double value) {
  for (std::int64_t i = 0; i < numel(); ++i) set(i, value);
  return *this;
}

std::int64_t Array::offset(std::int64_t index) const {
  std::int64_t sum = 0;
  for (int i = view_.shape.rank() - 1; i >= 0; --i) {
    sum += index % view_.shape[i] * view_.strides[i];
    index /= view_.shape[i];
  }
  return sum * size_of(view_.dtype);
}

double Array::at(std::int64_t index) const {
  const std::byte* const from = memory_.data() + offset(index);
  switch (view_.dtype) {
    case DType::f32:
      return load<float>(from);
    case DType::f64:
      return load<double>(from);
    case DType::f16:
      return load<float16>(from);
    case DType::bf16:
      return load<bfloat16>(from);
    case DType::i32:
      return load<std::int32_t>(from);
    case DType::i64:
      return load<std::int64_t>(from);
    default:
      return load<std::uint8_t>(from);
  }
}

void Array::set(std::int64_t index, double value) {
  std::byte* const to = memory_.data() + offset(index);
  switch (view_.dtype) {
    case DType::f32:
      return store<float>(to, value);
    case DType::f64:
      return store<double>(to, value);
    case DType::f16:
      return store<float16>(to, value);
    case DType::bf16:
      return store<bfloat16>(to, value);
    case DType::i32:
      return store<std::int32_t>(to, value);
    case DType::i64:
      return store<std::int64_t>(to, value);
    default:
      return store<std::uint8_t>(to, value);
  }
}

std::vector<double> Array::values() const {
  std::vector<double> values(static_cast<std::size_t>(numel()));
  for (std::int64_t i = 0; i < numel(); ++i) values[static_cast<std::size_t>(i)] = at(i);
  return values;
}

TensorView Array::view() const {
  TensorView view = view_;
  if (!memory_.empty()) view.data = const_cast<std::byte*>(memory_.data());
  return view;
}

TensorView Array::transposed(int a, int b) const {
  TensorView result = view();
  std::swap(result.shape[a], result.shape[b]);
  std::swap(result.strides[a], result.strides[b]);
  return result;
}

void run(std::string_view op, const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs,
         const Attributes& attributes) {
  const auto kernels = cpu_kernels();
  const auto entry = std::find_if(kernels.begin(), kernels.end(), [&](const KernelEntry& e) { return e.op == op; });
  ASSERT_NE(entry, kernels.end()) << "no host kernel " << op;
  entry->kernel({.op = op, .inputs = inputs, .outputs = outputs, .attributes = attributes});
}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-13;
    case DType::f32:
      return 2e-6;
    case DType::f16:
      return 1e-3;
    default:
      return 8e-3;
  }
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double scale = 1;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_LE(std::abs(actual[i] - expected[i]), tolerance * scale)
        << what << ": element " << i << " is " << actual[i] << ", expected " << expected[i];
  }
}

}  // namespace ferry::test
