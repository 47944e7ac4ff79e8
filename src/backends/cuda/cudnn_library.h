// cuDNN's functions that kernels call, its handle and descriptors, for the files on cuDNN.
#pragma once

#include <cudnn.h>

#include <source_location>

#include "src/backends/cuda/launch_scope.h"
#include "src/device/kernel.h"

namespace ferry::cuda_backend {

struct CudnnFunctions {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnSetTensor4dDescriptorEx) set_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnCreateFilterDescriptor) create_filter;
  decltype(&cudnnSetFilter4dDescriptor) set_filter;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter;
  decltype(&cudnnCreateConvolutionDescriptor) create_convolution;
  decltype(&cudnnSetConvolution2dDescriptor) set_convolution;
  decltype(&cudnnSetConvolutionGroupCount) set_groups;
  decltype(&cudnnSetConvolutionMathType) set_math;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution;
  decltype(&cudnnGetConvolutionForwardAlgorithm_v7) forward_algorithms;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnGetConvolutionBackwardDataAlgorithm_v7) data_algorithms;
  decltype(&cudnnConvolutionBackwardData) data_gradient;
  decltype(&cudnnGetConvolutionBackwardFilterAlgorithm_v7) filter_algorithms;
  decltype(&cudnnConvolutionBackwardFilter) filter_gradient;
  decltype(&cudnnCreatePoolingDescriptor) create_pooling;
  decltype(&cudnnSetPooling2dDescriptor) set_pooling;
  decltype(&cudnnDestroyPoolingDescriptor) destroy_pooling;
  decltype(&cudnnPoolingForward) pool;
  decltype(&cudnnPoolingBackward) pool_gradient;
  decltype(&cudnnBatchNormalizationBackward) normalize_gradient;
};

// The opened library of one driver.
struct Cudnn {
  CudnnFunctions functions{};
  cudnnHandle_t handle = nullptr;

  Cudnn();
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  // Throws: DeviceError for a status that is no success.
  void require(cudnnStatus_t status, const char* call,
               const std::source_location& where = std::source_location::current()) const;
};

// That of the launch under way, its work on the launch's stream. Null where the library is missing or was switched off.
Cudnn* current_cudnn();

cudnnDataType_t cudnn_type(DType dtype);

// Whether cuDNN's 32-bit extents and offsets are enough.
bool fits_cudnn(const Shape& shape);

// An array of rank 4, by its shape and strides.
class CudnnTensor {
 public:
  CudnnTensor(const Cudnn& cudnn, DType dtype, const Shape& shape, const Strides& strides);
  ~CudnnTensor();
  CudnnTensor(const CudnnTensor&) = delete;
  CudnnTensor& operator=(const CudnnTensor&) = delete;

  cudnnTensorDescriptor_t get() const { return descriptor_; }

 private:
  const Cudnn& cudnn_;
  cudnnTensorDescriptor_t descriptor_ = nullptr;
};

// alpha or beta, in the type that is computed in.
class CudnnFactor {
 public:
  CudnnFactor(double value, DType dtype)
      : wide_(value), narrow_(static_cast<float>(value)), is_wide_(dtype == DType::f64) {}
  const void* get() const { return is_wide_ ? static_cast<const void*>(&wide_) : &narrow_; }

 private:
  double wide_;
  float narrow_;
  bool is_wide_;
};

}  // namespace ferry::cuda_backend
