// Random programs: a seed makes a graph of ops over [kRows, kColumns] values, with shared subexpressions, views,
// reductions, products and lookups, which can be run again under other placements, orders and devices.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ferry/tensor.h>
#include "tests/support/generators.h"

namespace ferry::test {

class RandomProgram {
 public:
  static constexpr std::int64_t kRows = 4, kColumns = 6;
  static constexpr std::size_t kLeaves = 3;

  RandomProgram(std::uint64_t seed, std::size_t steps);

  std::size_t size() const { return steps_.size(); }
  // Values of the leaves, from the seed.
  std::vector<Array> leaves(DType dtype) const;

  // `around(i, body)` calls body, which is step i: a place for guards.
  using Around = std::function<void(std::size_t, const std::function<void()>&)>;
  // The mean of the last values. Requires: kLeaves leaves.
  Tensor run(const std::vector<Tensor>& leaves, const Around& around = {}) const;

 private:
  struct Step {
    std::size_t op, a, b;
  };
  std::uint64_t seed_;
  std::vector<Step> steps_;
};

}  // namespace ferry::test
