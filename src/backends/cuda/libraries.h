// cuBLAS and cuDNN, opened when a kernel first needs them, so that the plug-in loads and its other kernels run where
// they are missing.
//
// Thread-safety: none, the driver locks.
#pragma once

#include <cublas_v2.h>
#include <cudnn.h>

#include <memory>

namespace ferry::cuda_backend {

// Where the libraries are looked for; the loader's paths and the plug-in's own apply.
const char* cublas_library();
const char* cudnn_library();

// Whether f32 may be rounded to TensorFloat-32 on its way into products: FERRY_TF32=1.
bool allows_tf32();

// The functions of cuBLAS that kernels call.
struct CublasFunctions {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasGetStatusString) status_string;
  decltype(&cublasGemmEx_64) gemm;
  decltype(&cublasGemmStridedBatchedEx_64) gemm_strided;
  decltype(&cublasGemmBatchedEx_64) gemm_batched;
};

// Those of cuDNN.
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
};

class Libraries {
 public:
  Libraries();
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  // Throws: DeviceError when the library is missing, or what cuBLAS says.
  const CublasFunctions& cublas();
  // Its work goes to `stream`. Throws: as cublas().
  cublasHandle_t cublas_handle(cudaStream_t stream);

  // Null where the library is missing or FERRY_CUDNN=0. Throws: what cuDNN says when it does not start.
  const CudnnFunctions* cudnn();
  // Requires: cudnn() is not null.
  cudnnHandle_t cudnn_handle(cudaStream_t stream);

 private:
  struct Cublas;
  struct Cudnn;
  std::unique_ptr<Cublas> cublas_;
  std::unique_ptr<Cudnn> cudnn_;
  bool looked_for_cudnn_ = false;
};

}  // namespace ferry::cuda_backend
