// Elementary functions on float in plain arithmetic: no tables, no branches, no fused multiply-add, so that they
// vectorise and give the same bits on every processor. Within 2 ulp over the whole range, subnormal results included;
// infinities and NaN as in <cmath>. The double versions are <cmath>'s.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "src/kernels/functor.h"

namespace ferry::kernels {

// e^x by 2^n e^r with |r| ≤ ln 2 / 2; the minimax polynomial is that of Cephes' expf.
FERRY_FUNCTOR float exp(float x) {
  // Below the first e^x rounds to 0, above the second it is infinite.
  float clamped = x < -104.0f ? -104.0f : x;
  clamped = clamped > 89.0f ? 89.0f : clamped;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  constexpr float kRound = 12582912.0f;
  const float shifted = clamped * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const auto exponent = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u);
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
  // In two factors, as 2^n itself may be infinite or subnormal.
  const std::int32_t half = exponent >> 1;
  const auto power = [](std::int32_t k) { return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23); };
  return p * power(half) * power(exponent - half);
}

// ln x by ln m + e ln 2 with m in [sqrt(1/2), sqrt(2)); the polynomial is that of Cephes' logf.
FERRY_FUNCTOR float log(float x) {
  const bool subnormal = x < std::numeric_limits<float>::min();
  const float scaled = subnormal ? x * 0x1p25f : x;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled) + (0x3f800000u - 0x3f3504f3u);
  const float e = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 127) - (subnormal ? 25.0f : 0.0f);
  const float m = std::bit_cast<float>((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * z;
  const float regular = (m + y) + e * 0.693359375f;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float positive = x < kInfinity ? regular : x;
  const float result = x > 0.0f ? positive : x == 0.0f ? -kInfinity : std::numeric_limits<float>::quiet_NaN();
  return x != x ? x : result;
}

FERRY_FUNCTOR float tanh(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * x + x;
  const float far = 1.0f - 2.0f / (exp(magnitude + magnitude) + 1.0f);
  const float large = x < 0.0f ? -far : far;
  return magnitude < 0.625f ? small : large;
}

FERRY_FUNCTOR float sigmoid(float x) {
  const float e = exp(x < 0.0f ? x : -x);  // at most 1, so that neither side overflows
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

FERRY_FUNCTOR float sqrt(float x) { return std::sqrt(x); }

FERRY_FUNCTOR double exp(double x) { return std::exp(x); }
FERRY_FUNCTOR double log(double x) { return std::log(x); }
FERRY_FUNCTOR double tanh(double x) { return std::tanh(x); }
FERRY_FUNCTOR double sqrt(double x) { return std::sqrt(x); }
FERRY_FUNCTOR double sigmoid(double x) {
  const double e = std::exp(x < 0.0 ? x : -x);
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

}  // namespace ferry::kernels
