// Scratch memory of one stream's kernels. Work of a stream runs in order, so that each launch may use the same memory
// again. It grows to what the largest launch asked for, which depends on shapes alone, and lies outside of what the
// allocators above hand out.
//
// Thread-safety: none, the driver locks.
#pragma once

#include <cstddef>
#include <vector>

#include <ferry/units.h>

namespace ferry::cuda_backend {

class Workspace {
 public:
  Workspace() = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // 512-byte aligned, until the launch has ended. Throws: OutOfMemory.
  std::byte* take(std::size_t bytes);
  // What was taken may be used by the next launch.
  void end_launch() noexcept;

  Bytes reserved() const;

 private:
  struct Block {
    std::byte* data;
    std::size_t size;
  };
  void release() noexcept;

  std::vector<Block> blocks_;  // the last one is in use, those before it belong to the launch under way
  std::size_t used_ = 0;       // of the last block
};

}  // namespace ferry::cuda_backend
