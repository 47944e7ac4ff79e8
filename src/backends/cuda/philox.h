// Where the words of an element of a random stream are.
#pragma once

#include "src/kernels/random.h"

namespace ferry::cuda_backend {

// Where element g of a stream lies among the words of its generator: see src/kernels/random.h.
struct PhiloxPlace {
  std::uint64_t counter;
  int word;
};
template <int kWords>  // of a counter that make elements
FERRY_FUNCTOR PhiloxPlace philox_place(std::uint64_t g) {
  constexpr std::uint64_t kBatch = kWords * kernels::kPhiloxBatch;
  const std::uint64_t batch = g / kBatch, rest = g % kBatch;
  return {batch * kernels::kPhiloxBatch + rest % kernels::kPhiloxBatch, static_cast<int>(rest / kernels::kPhiloxBatch)};
}
FERRY_FUNCTOR kernels::PhiloxWords words_at(std::uint64_t seed, std::uint64_t counter) {
  return kernels::philox(seed, static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32));
}

// Whether element g of a stream, as uniform draws it in f32, reaches a threshold of 24 bits.
FERRY_FUNCTOR bool is_kept(std::uint64_t seed, std::uint64_t g, std::uint32_t threshold) {
  const PhiloxPlace place = philox_place<4>(g);
  return (words_at(seed, place.counter).word[place.word] >> 8) >= threshold;
}

}  // namespace ferry::cuda_backend
