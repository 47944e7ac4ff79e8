#include <fmt/ranges.h>

#include <charconv>

#include <ferry/device.h>
#include <ferry/dtype.h>
#include <ferry/shape.h>
#include "src/base/check.h"

namespace ferry {
namespace {

constexpr std::string_view kDTypeNames[kDTypeCount] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"};

// Leaves room for sizes in bytes, and for rounding them up.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

}  // namespace

std::string_view name_of(DType type) { return kDTypeNames[static_cast<int>(type)]; }

DType parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kDTypeNames[i] == name) return static_cast<DType>(i);
  }
  throw InvalidArgument(fmt::format("unknown dtype '{}'; known: {}", name, fmt::join(kDTypeNames, ", ")));
}

void Dims::throw_rank(std::size_t rank) {
  throw ShapeError(fmt::format("a tensor has at most {} axes, not {}", kMaxRank, rank));
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.rank(), 1);
  std::int64_t run = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = run;
    const bool fits = shape[i] >= 0 && !__builtin_mul_overflow(run, std::max<std::int64_t>(shape[i], 1), &run);
    FERRY_CHECK(fits && run <= kMaxElements, ShapeError, "shape {} {}", to_string(shape),
                shape[i] < 0 ? "has a negative extent" : "has more than 2^56 elements");
  }
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  contiguous_strides(shape);  // refuses what no tensor can be
  const std::int64_t channels = shape[1], width = shape[3];
  return {shape[2] * width * channels, 1, width * channels, channels};
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ", ")); }

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : fmt::format("gpu:{}", static_cast<int>(device.index));
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return cpu::device;
  if (text == "gpu") return gpu::device;
  if (text.starts_with("gpu:")) {
    const std::string_view digits = text.substr(4);
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc{} && end == digits.data() + digits.size() && index >= 0 && index < 128) {
      return {DeviceType::gpu, static_cast<std::int8_t>(index)};
    }
  }
  throw InvalidArgument(fmt::format("'{}' names no device; legal are cpu, gpu and gpu:N with N from 0", text));
}

}  // namespace ferry
