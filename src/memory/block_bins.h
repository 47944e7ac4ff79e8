// Free blocks in bins by size: best fit in a few steps, without allocating.
//
// Sizes are multiples of 512 bytes. Up to 64 multiples each has its own bin, above that a doubling has 32. A bin is a
// list in rising size; Ties says which of equal sizes comes first. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/memory/block.h"

namespace ferry::memory {

constexpr Bytes kBlockUnit{512};

enum class Ties : std::uint8_t {
  latest_first,  // the block freed last: it is most likely in a cache
  lowest_first,  // the lowest address: what is used stays together
};

class BlockBins {
 public:
  // Requires: block.size is a positive multiple of kBlockUnit and at most 2^47 bytes.
  void insert(Block& block, Ties ties = Ties::latest_first) noexcept;
  void remove(Block& block) noexcept;
  // The smallest block of at least `size`, left in its bin; null when there is none.
  Block* best_fit(Bytes size) const noexcept;
  // Size of the largest block, 0 when empty.
  Bytes largest() const noexcept;

 private:
  static constexpr std::size_t kWords = 18;
  static constexpr std::size_t kBins = kWords * 64;
  static std::size_t index(Bytes size) noexcept;

  std::array<Block*, kBins> heads_{};
  std::array<std::uint64_t, kWords> occupied_{};  // a bit a bin
};

}  // namespace ferry::memory
