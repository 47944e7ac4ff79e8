// Rates of a GPU through ferry beside the same through the CUDA runtime and cuBLAS alone, as JSON. Not a test by
// itself: scripts/gpu_check runs it where there is a GPU.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include <ferry/error.h>
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include "src/runtime/runtime_core.h"

namespace ferry {
namespace {

constexpr Bytes kCopy = kMiB * 256;
constexpr int kRepeats = 10;

void require(cudaError_t code) {
  if (code != cudaSuccess) throw DeviceError(cudaGetErrorString(code), static_cast<int>(code));
}
void require(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError(cublasGetStatusString(status), static_cast<int>(status));
}

// Seconds of the fastest of several runs, the device drained after each.
double fastest(const std::function<void()>& run) {
  run();
  require(cudaDeviceSynchronize());
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    require(cudaDeviceSynchronize());
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

struct Direction {
  const char* name;
  CopyDirection direction;
  cudaMemcpyKind kind;
};

nlohmann::json copy_rates(DeviceContext& gpu) {
  const auto size = static_cast<std::size_t>(kCopy.count);
  void* const device = gpu.driver->allocate(kCopy);
  void* const pinned = gpu.driver->allocate_pinned(kCopy);
  std::vector<std::byte> pageable(size);
  cudaStream_t stream{};
  require(cudaStreamCreate(&stream));
  nlohmann::json rates;
  for (const Direction& d : {Direction{"host_to_device", CopyDirection::host_to_device, cudaMemcpyHostToDevice},
                             Direction{"device_to_host", CopyDirection::device_to_host, cudaMemcpyDeviceToHost}}) {
    for (const HostMemory memory : {HostMemory::pinned, HostMemory::pageable}) {
      void* const host = memory == HostMemory::pinned ? pinned : pageable.data();
      const bool in = d.direction == CopyDirection::host_to_device;
      void *const to = in ? device : host, *const from = in ? host : device;
      const double through = fastest([&] {
        gpu.driver->copy({to, from, kCopy, d.direction, memory, "copy"}, gpu.compute);
      });
      const double alone = fastest([&] { require(cudaMemcpyAsync(to, from, size, d.kind, stream)); });
      rates[d.name][memory == HostMemory::pinned ? "pinned" : "pageable"] = {
          {"ferry_bytes_per_second", static_cast<double>(size) / through},
          {"cuda_bytes_per_second", static_cast<double>(size) / alone},
          {"ratio", alone / through}};
    }
  }
  require(cudaStreamDestroy(stream));
  gpu.driver->free(device, kCopy);
  gpu.driver->free_pinned(pinned, kCopy);
  return rates;
}

cudaDataType_t data_type(DType dtype) {
  return dtype == DType::f32 ? CUDA_R_32F : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_16BF;
}

nlohmann::json matmul_rates(DeviceContext& gpu) {
  constexpr std::int64_t kSide = 8192;
  const NoGrad no_grad;
  cublasHandle_t handle{};
  require(cublasCreate(&handle));
  // As ferry asks for: 16-bit products added up in f32.
  require(cublasSetMathMode(
      handle, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  nlohmann::json rates;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor a = uniform({kSide, kSide}, -1, 1, dtype), b = uniform({kSide, kSide}, -1, 1, dtype);
    const double through = fastest([&] { const Tensor c = matmul(a, b); });
    const Bytes size{kSide * kSide * size_of(dtype)};
    void *const left = gpu.driver->allocate(size), *const right = gpu.driver->allocate(size),
                *const result = gpu.driver->allocate(size);
    const float one = 1, zero = 0;
    const double alone = fastest([&] {
      require(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide, kSide, kSide, &one, left, data_type(dtype), kSide,
                           right, data_type(dtype), kSide, &zero, result, data_type(dtype), kSide, CUBLAS_COMPUTE_32F,
                           CUBLAS_GEMM_DEFAULT));
    });
    for (void* const block : {left, right, result}) gpu.driver->free(block, size);
    const double operations = 2.0 * kSide * kSide * kSide;
    rates[std::string(name_of(dtype))] = {{"ferry_operations_per_second", operations / through},
                                          {"cublas_operations_per_second", operations / alone},
                                          {"ratio", alone / through}};
  }
  require(cublasDestroy(handle));
  return rates;
}

// Copies both ways while products run: how much of the shorter of the two is hidden behind the other.
nlohmann::json overlap(DeviceContext& gpu) {
  const NoGrad no_grad;
  void* const device = gpu.driver->allocate(kCopy * 2);
  void* const pinned = gpu.driver->allocate_pinned(kCopy * 2);
  const Tensor a = uniform({4096, 4096}, -1, 1, DType::f32);
  auto* const device_out = static_cast<std::byte*>(device) + kCopy.count;
  auto* const pinned_out = static_cast<std::byte*>(pinned) + kCopy.count;
  const auto copies = [&] {
    gpu.driver->copy({device, pinned, kCopy, CopyDirection::host_to_device, HostMemory::pinned, "in"},
                     gpu.host_to_device);
    gpu.driver->copy({pinned_out, device_out, kCopy, CopyDirection::device_to_host, HostMemory::pinned, "out"},
                     gpu.device_to_host);
  };
  const auto products = [&] {
    for (int i = 0; i < 8; ++i) const Tensor c = matmul(a, a);
  };
  const double copying = fastest(copies), computing = fastest(products);
  const double both = fastest([&] {
    copies();
    products();
  });
  gpu.driver->free(device, kCopy * 2);
  gpu.driver->free_pinned(pinned, kCopy * 2);
  return {{"copy_seconds", copying},
          {"compute_seconds", computing},
          {"together_seconds", both},
          {"hidden", (copying + computing - both) / std::min(copying, computing)}};
}

int run(std::string_view part) {
  Runtime runtime({.device = "cuda"});
  DeviceContext& gpu = runtime.core()->context(gpu::device);
  const nlohmann::json result = part == "copies"   ? copy_rates(gpu)
                                : part == "matmul" ? matmul_rates(gpu)
                                                   : overlap(gpu);
  fmt::print("{}\n", result.dump(2));
  return 0;
}

}  // namespace
}  // namespace ferry

int main(int argc, char** argv) {
  const std::string_view part = argc == 2 ? argv[1] : "";
  if (part != "copies" && part != "matmul" && part != "overlap") {
    fmt::print(stderr, "usage: device_rates copies|matmul|overlap\n");
    return 2;
  }
  try {
    return ferry::run(part);
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_rates: {}\n", error.what());
    return 1;
  }
}
