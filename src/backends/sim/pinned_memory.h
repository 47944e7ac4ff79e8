// Host memory that a simulated GPU's asynchronous copies may use: real memory, taken from the system in whole mappings.
//
// Thread-safety: none, the driver locks.
#pragma once

#include <cstddef>
#include <map>

#include <ferry/units.h>

namespace ferry::sim {

class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // Page aligned. Null for size 0 and when the system has none left.
  void* allocate(Bytes size);
  // False when `pointer` is no live allocation.
  bool free(void* pointer);

  Bytes allocated() const { return allocated_; }

  // Makes host memory read as zeros, without holding pages for that where it was allocated here.
  void clear(void* destination, Bytes size);

 private:
  std::map<std::byte*, Bytes> blocks_;
  Bytes allocated_;
};

}  // namespace ferry::sim
