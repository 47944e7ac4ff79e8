// Noise for random_batch: host tensors whose elements depend on the seed only. In timing-only mode nothing is drawn.
#pragma once

#include <cstdint>
#include <random>

#include <ferry/dtype.h>
#include <ferry/tensor.h>

namespace ferry::models {

class RandomData {
 public:
  explicit RandomData(std::uint64_t seed) : engine_(seed) {}

  // Floating elements of mean 0 and variance 1, uniformly distributed.
  Tensor noise(const Shape& shape, DType dtype);
  // i64 elements in [0, bound).
  Tensor ids(const Shape& shape, std::int64_t bound);
  // One number in [0, bound).
  std::int64_t below(std::int64_t bound);

 private:
  std::mt19937_64 engine_;
};

// Throws: InvalidArgument unless size > 0.
void require_samples(std::int64_t size);

}  // namespace ferry::models
