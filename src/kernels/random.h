// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), and what kernels draw from it.
//
// Words are laid out in batches of kPhiloxBatch counters: word w of counter c is place w * kPhiloxBatch + c %
// kPhiloxBatch of batch c / kPhiloxBatch, so that lanes of a vector are neighbours in memory. Element g = offset + i of
// a call reads the words of its own place: a pure function of (seed, g).
#pragma once

#include <cmath>

#include "src/kernels/math.h"

namespace ferry::kernels {

constexpr std::int64_t kPhiloxBatch = 64;

constexpr int kPhiloxRounds = 10;
constexpr std::uint32_t kPhiloxFactor0 = 0xD2511F53u, kPhiloxFactor1 = 0xCD9E8D57u;  // of the counter's words
constexpr std::uint32_t kPhiloxStep0 = 0x9E3779B9u, kPhiloxStep1 = 0xBB67AE85u;      // of the key's

struct PhiloxWords {
  std::uint32_t word[4];
};

FERRY_FUNCTOR PhiloxWords philox(std::uint64_t seed, std::uint32_t counter_low, std::uint32_t counter_high) {
  std::uint32_t c0 = counter_low, c1 = counter_high, c2 = 0, c3 = 0;
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxFactor0} * c0, p1 = std::uint64_t{kPhiloxFactor1} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += kPhiloxStep0;
    k1 += kPhiloxStep1;
  }
  return {{c0, c1, c2, c3}};
}

// [0, 1) with all bits that the type holds.
FERRY_FUNCTOR float unit_float(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
}
FERRY_FUNCTOR double unit_double(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(static_cast<std::int64_t>((std::uint64_t{high} << 21) | (low >> 11))) * 0x1p-53;
}

// Two independent standard normal numbers.
template <class T>
struct NormalPair {
  T first, second;
};

// Box-Muller: u in (0, 1], v in [0, 1). The angle 2 pi v is reduced to a quadrant exactly, as v is a fraction of 2^24;
// sine and cosine within it are the polynomials of Cephes' sinf and cosf.
FERRY_FUNCTOR NormalPair<float> box_muller(float u, float v) {
  const float radius = kernels::sqrt(-2.0f * kernels::log(u));
  constexpr float kRound = 12582912.0f;
  const float shifted = v * 4.0f + kRound;
  const std::uint32_t quadrant = std::bit_cast<std::uint32_t>(shifted) & 3u;
  const float x = (v * 4.0f - (shifted - kRound)) * 1.57079632679489662f;
  const float z = x * x;
  const float sine = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  const float cosine =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * (z * z) - 0.5f * z + 1.0f;
  const bool swap = (quadrant & 1u) != 0;
  const std::uint32_t cosine_sign = ((quadrant + 1u) & 2u) << 30, sine_sign = (quadrant & 2u) << 30;
  const float c = swap ? sine : cosine, s = swap ? cosine : sine;
  return {radius * std::bit_cast<float>(std::bit_cast<std::uint32_t>(c) ^ cosine_sign),
          radius * std::bit_cast<float>(std::bit_cast<std::uint32_t>(s) ^ sine_sign)};
}

FERRY_FUNCTOR NormalPair<double> box_muller(double u, double v) {
  const double radius = std::sqrt(-2.0 * std::log(u)), angle = 6.283185307179586476925 * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace ferry::kernels
