// The runtime's stream of random numbers written plainly: what ops that draw must agree with. Philox4x32-10 as its
// paper states it, and the places of src/kernels/random.h.
#pragma once

#include <cstdint>

namespace ferry::test {

// Number `place` of the stream that `seed` begins, in [0, 1), as uniform draws it in f32.
inline double philox_uniform(std::uint64_t seed, std::uint64_t place) {
  constexpr std::uint64_t kBatch = 64;
  const std::uint64_t batch = place / (4 * kBatch), within = place % (4 * kBatch);
  const std::uint64_t number = batch * kBatch + within % kBatch;
  std::uint32_t counter[4] = {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0], b = std::uint64_t{0xCD9E8D57u} * counter[2];
    const std::uint32_t next[4] = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    for (int i = 0; i < 4; ++i) counter[i] = next[i];
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return static_cast<double>(counter[within / kBatch] >> 8) * 0x1p-24;
}

}  // namespace ferry::test
