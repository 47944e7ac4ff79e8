// What the stand-in's files on cuDNN share: handles, descriptors, and elements of any float type.
#pragma once

#include <cudnn.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tests/fake_cudart/machine.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type{};
  std::int64_t shape[4] = {}, stride[4] = {};
};
struct cudnnFilterStruct {
  cudnnDataType_t type{};
  std::int64_t shape[4] = {};  // K, C, H, W; elements lie as K, H, W, C
};
namespace fake_cuda {

inline double get(const void* data, cudnnDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return static_cast<const float*>(data)[i];
    case CUDNN_DATA_DOUBLE:
      return static_cast<const double*>(data)[i];
    case CUDNN_DATA_HALF:
      return static_cast<float>(static_cast<const __half*>(data)[i]);
    default:
      return static_cast<float>(static_cast<const __nv_bfloat16*>(data)[i]);
  }
}

inline void set(void* data, cudnnDataType_t type, std::int64_t i, double value) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case CUDNN_DATA_DOUBLE:
      static_cast<double*>(data)[i] = value;
      return;
    case CUDNN_DATA_HALF:
      static_cast<__half*>(data)[i] = __half(static_cast<float>(value));
      return;
    default:
      static_cast<__nv_bfloat16*>(data)[i] = __nv_bfloat16(static_cast<float>(value));
  }
}

inline double factor(const void* value, cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
}

// Puts work on the handle's stream and in the log.
template <class Work>
cudnnStatus_t enqueue(cudnnHandle_t handle, const char* name, const Work& work) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  if (machine.enter(name) != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  machine.launches.push_back({name, dim3(1), dim3(1)});
  CUstream_st* const stream = machine.stream_of(handle->stream);
  machine.push(stream, work, machine.traced({.device = stream->device}));
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace fake_cuda
