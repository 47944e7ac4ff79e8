#include "src/backends/cuda/link_probe.h"

#include <cuda_runtime_api.h>

#include <algorithm>

namespace ferry::cuda_backend {
namespace {

// Two events, and memory on both sides, for the time of measuring copies.
class LinkProbe {
 public:
  LinkProbe() {
    good_ = cudaMalloc(&device_, kProbe) == cudaSuccess &&
            cudaHostAlloc(&host_, kProbe, cudaHostAllocPortable) == cudaSuccess &&
            cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess &&
            cudaEventCreateWithFlags(&begin_, cudaEventDefault) == cudaSuccess &&
            cudaEventCreateWithFlags(&end_, cudaEventDefault) == cudaSuccess;
  }
  ~LinkProbe() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (host_ != nullptr) cudaFreeHost(host_);
    if (device_ != nullptr) cudaFree(device_);
    cudaGetLastError();
  }
  LinkProbe(const LinkProbe&) = delete;
  LinkProbe& operator=(const LinkProbe&) = delete;

  DriverInfo::Link measure() {
    const double in = seconds(device_, host_, kProbe, cudaMemcpyHostToDevice);
    const double out = seconds(host_, device_, kProbe, cudaMemcpyDeviceToHost);
    const double small = seconds(device_, host_, kSmall, cudaMemcpyHostToDevice);
    if (!good_) return {};
    return {.out_bytes_per_second = static_cast<double>(kProbe) / out,
            .in_bytes_per_second = static_cast<double>(kProbe) / in,
            .latency = Nanoseconds(static_cast<std::int64_t>(small * 1e9))};
  }

 private:
  static constexpr std::size_t kProbe = std::size_t{8} << 20, kSmall = 4096;

  // The faster of two.
  double seconds(void* to, const void* from, std::size_t size, cudaMemcpyKind kind) {
    float best = 0;
    for (int i = 0; i < 2 && good_; ++i) {
      float milliseconds = 0;
      good_ = cudaEventRecord(begin_, stream_) == cudaSuccess &&
              cudaMemcpyAsync(to, from, size, kind, stream_) == cudaSuccess &&
              cudaEventRecord(end_, stream_) == cudaSuccess && cudaEventSynchronize(end_) == cudaSuccess &&
              cudaEventElapsedTime(&milliseconds, begin_, end_) == cudaSuccess;
      best = i == 0 ? milliseconds : std::min(best, milliseconds);
    }
    return std::max(1e-9, static_cast<double>(best) * 1e-3);
  }

  void* device_ = nullptr;
  void* host_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  bool good_ = false;
};

}  // namespace

DriverInfo::Link measure_link() noexcept { return LinkProbe().measure(); }

}  // namespace ferry::cuda_backend
