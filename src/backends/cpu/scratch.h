// Memory for the tiles of a task.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/backends/cpu/dnn.h"

namespace ferry::cpu_backend {

// Consecutive arrays of C in the calling thread's buffer for tiles, each 64-byte aligned. States the sizes first, then
// gives them out in the same order:
//   Scratch<float> scratch;
//   const auto a = scratch.add(10), b = scratch.add(20);
//   scratch.allocate();  // scratch[a], scratch[b]
// A task asks once, before it computes.
template <class C>
class Scratch {
 public:
  std::size_t add(std::int64_t count) {
    const std::size_t begin = size_;
    constexpr std::size_t kUnit = 64 / sizeof(C);
    size_ += (static_cast<std::size_t>(count) + kUnit - 1) / kUnit * kUnit;
    return begin;
  }
  void allocate() { data_ = reinterpret_cast<C*>(dnn::work_buffer(dnn::Buffer::tiles, size_ * sizeof(C))); }
  C* operator[](std::size_t array) const { return data_ + array; }

 private:
  C* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ferry::cpu_backend
