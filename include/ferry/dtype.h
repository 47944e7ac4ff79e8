// Element types of tensors, and the two 16-bit floats as C++ types.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace ferry {

#if defined(__CUDACC__)
#define FERRY_HOST_DEVICE __host__ __device__
#else
#define FERRY_HOST_DEVICE
#endif

enum class DType : std::uint8_t { f32, f64, f16, bf16, i32, i64, u8, boolean };

constexpr int kDTypeCount = 8;

constexpr std::int64_t size_of(DType type) {
  constexpr std::int64_t kSizes[kDTypeCount] = {4, 8, 2, 2, 4, 8, 1, 1};
  return kSizes[static_cast<int>(type)];
}

constexpr bool is_floating(DType type) { return type <= DType::bf16; }

// "f32", "bf16", "bool", …
std::string_view name_of(DType type);

// Throws: InvalidArgument for an unknown name.
DType parse_dtype(std::string_view name);

// IEEE 754 binary16, stored; arithmetic is done in float. Conversion rounds to nearest even.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  FERRY_HOST_DEVICE explicit float16(float value);
  FERRY_HOST_DEVICE explicit operator float() const;
};

// The upper half of an IEEE 754 binary32, stored; arithmetic is done in float. Conversion rounds to nearest even.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  FERRY_HOST_DEVICE explicit bfloat16(float value);
  FERRY_HOST_DEVICE explicit operator float() const;
};

FERRY_HOST_DEVICE inline bfloat16::bfloat16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = word + 0x7fffu + ((word >> 16) & 1u);
  bits = static_cast<std::uint16_t>(nan ? ((word >> 16) | 0x40u) : (rounded >> 16));
}

FERRY_HOST_DEVICE inline bfloat16::operator float() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

FERRY_HOST_DEVICE inline float16::float16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (word >> 16) & 0x8000u;
  const std::uint32_t magnitude = word & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // rounds past the largest half
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 lets the FPU align and round the mantissa into the low bits.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

FERRY_HOST_DEVICE inline float16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  std::uint32_t word;
  if (magnitude >= 0x7c00u) {
    word = 0x7f800000u | ((magnitude & 0x3ffu) << 13);
  } else if (magnitude >= 0x400u) {
    word = (magnitude << 13) + 0x38000000u;
  } else {
    word = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | word);
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

template <class T>
constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace ferry
