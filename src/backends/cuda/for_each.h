// How kernels of this folder run: a body for each element, or for each row by a team of threads. Bodies are functors
// for host and device. nvcc makes kernels of them; another compiler makes host loops that take their turn in the
// stream, by which tests run every launcher and body where there is no GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/launch_scope.h"
#include "src/kernels/functor.h"

namespace ferry::cuda_backend {

constexpr int kThreads = 256;  // a block
constexpr int kPerThread = 4;  // elements, so that loads of several are under way
constexpr int kWarp = 32;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;

// What a thread's partial results have in common with those of its team. `combine` is associative up to rounding;
// results are combined in one order, whatever the device.
struct Team {
  int rank, size;

  // All threads get the combination of all values. Acc: trivially copyable.
  template <class Acc, class Combine>
  FERRY_FUNCTOR Acc all(Acc value, const Combine& combine) const;
};

#if defined(__CUDACC__)

// Another thread's value of the same warp.
template <class T>
__device__ __forceinline__ T shuffle_down(const T& value, int distance) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0);
  union Words {
    __device__ Words() {}
    T value;
    unsigned word[sizeof(T) / 4];
  } from, to;
  from.value = value;
#pragma unroll
  for (unsigned i = 0; i < sizeof(T) / 4; ++i) to.word[i] = __shfl_down_sync(0xffffffffu, from.word[i], distance);
  return to.value;
}

template <class Acc, class Combine>
FERRY_FUNCTOR Acc Team::all(Acc value, const Combine& combine) const {
#if defined(__CUDA_ARCH__)
  __shared__ alignas(16) unsigned char memory[kThreads / kWarp * sizeof(Acc)];
  Acc* const parts = reinterpret_cast<Acc*>(memory);
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, shuffle_down(value, distance));
  }
  const int warps = size / kWarp;
  if (rank % kWarp == 0) parts[rank / kWarp] = value;
  __syncthreads();
  Acc total = parts[0];
  for (int i = 1; i < warps; ++i) total = combine(total, parts[i]);
  __syncthreads();  // before another call writes there
  return total;
#else
  return value;
#endif
}

template <int kPer, class Body>
__global__ void __launch_bounds__(kThreads) element_kernel(std::int64_t count, Body body) {
  constexpr std::int64_t kTile = std::int64_t{kThreads} * kPer;
  for (std::int64_t tile = blockIdx.x * kTile; tile < count; tile += gridDim.x * kTile) {
#pragma unroll
    for (int k = 0; k < kPer; ++k) {
      const std::int64_t i = tile + k * kThreads + threadIdx.x;
      if (i < count) body(i);
    }
  }
}

template <class Body>
__global__ void __launch_bounds__(kThreads) row_kernel(std::int64_t rows, Body body) {
  const Team team{static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) body(row, team);
}

// body(i) for i in [0, count), in any order; kPer of them by one thread: 1 for bodies that loop.
template <int kPer = kPerThread, class Body>
void for_each(std::int64_t count, const Body& body) {
  if (count <= 0) return;
  constexpr std::int64_t kTile = std::int64_t{kThreads} * kPer;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, (count + kTile - 1) / kTile));
  element_kernel<kPer><<<blocks, kThreads, 0, LaunchScope::current().stream()>>>(count, body);
  FERRY_CUDA(cudaGetLastError());
}

// body(row, team) for rows of about `length` elements, each by a team of its own.
template <class Body>
void for_each_row(std::int64_t rows, std::int64_t length, const Body& body) {
  if (rows <= 0) return;
  int threads = kWarp;
  while (threads < kThreads && threads * 2 < length) threads *= 2;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, rows));
  row_kernel<<<blocks, threads, 0, LaunchScope::current().stream()>>>(rows, body);
  FERRY_CUDA(cudaGetLastError());
}

#else  // host loops

template <class Acc, class Combine>
FERRY_FUNCTOR Acc Team::all(Acc value, const Combine& /*combine*/) const {
  return value;
}

template <class Work>
void host_launch(Work work) {
  using Call = std::function<void()>;
  auto call = std::make_unique<Call>(std::move(work));
  FERRY_CUDA(cudaLaunchHostFunc(
      LaunchScope::current().stream(), [](void* data) { (*std::unique_ptr<Call>(static_cast<Call*>(data)))(); },
      call.get()));
  call.release();
}

template <int kPer = kPerThread, class Body>
void for_each(std::int64_t count, const Body& body) {
  if (count <= 0) return;
  host_launch([count, body] {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  });
}

template <class Body>
void for_each_row(std::int64_t rows, std::int64_t /*length*/, const Body& body) {
  if (rows <= 0) return;
  host_launch([rows, body] {
    for (std::int64_t row = 0; row < rows; ++row) body(row, Team{0, 1});
  });
}

#endif

struct SumOf {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    return a + b;
  }
};
struct MaxOf {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

}  // namespace ferry::cuda_backend
