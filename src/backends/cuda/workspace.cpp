#include "src/backends/cuda/workspace.h"

#include <algorithm>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <ferry/error.h>
#include "src/backends/cuda/cuda_error.h"

namespace ferry::cuda_backend {
namespace {

constexpr std::size_t kAlignment = 512, kSmallestBlock = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

Workspace::~Workspace() { release(); }

void Workspace::release() noexcept {
  for (const Block& block : blocks_) cudaFree(block.data);
  blocks_.clear();
  used_ = 0;
}

Bytes Workspace::reserved() const {
  Bytes sum;
  for (const Block& block : blocks_) sum += Bytes{static_cast<std::int64_t>(block.size)};
  return sum;
}

std::byte* Workspace::take(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kAlignment);
  if (blocks_.empty() || used_ + size > blocks_.back().size) {
    const std::size_t asked = round_up(size, kSmallestBlock);
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, asked);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      const Bytes wanted{static_cast<std::int64_t>(asked)};
      throw OutOfMemory(fmt::format("the device has no {} left for the scratch memory of a kernel", to_string(wanted)),
                        {.requested = wanted, .allocated = {}, .reserved = reserved(), .limit = {}});
    }
    check(code, "cudaMalloc(&data, asked)");
    blocks_.push_back({static_cast<std::byte*>(data), asked});
    used_ = 0;
  }
  std::byte* const taken = blocks_.back().data + used_;
  used_ += size;
  return taken;
}

void Workspace::end_launch() noexcept {
  used_ = 0;
  if (blocks_.size() <= 1) return;
  // One block of the sum serves the next launch of this kind; freeing waits for the device, this once.
  const auto size = static_cast<std::size_t>(reserved().count);
  release();
  void* data = nullptr;
  if (cudaMalloc(&data, size) == cudaSuccess) {
    blocks_.push_back({static_cast<std::byte*>(data), size});
  } else {
    cudaGetLastError();
  }
}

}  // namespace ferry::cuda_backend
