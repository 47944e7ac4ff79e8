#include "src/backends/cuda/cudnn_library.h"

#include <algorithm>
#include <memory>

#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/cudnn.h"
#include "src/backends/cuda/libraries.h"
#include "src/backends/cuda/shared_library.h"

namespace ferry::cuda_backend {
namespace {

void find_convolutions(const SharedLibrary& library, CudnnFunctions& functions) {
  library.find(functions.create_filter, "cudnnCreateFilterDescriptor");
  library.find(functions.set_filter, "cudnnSetFilter4dDescriptor");
  library.find(functions.destroy_filter, "cudnnDestroyFilterDescriptor");
  library.find(functions.create_convolution, "cudnnCreateConvolutionDescriptor");
  library.find(functions.set_convolution, "cudnnSetConvolution2dDescriptor");
  library.find(functions.set_groups, "cudnnSetConvolutionGroupCount");
  library.find(functions.set_math, "cudnnSetConvolutionMathType");
  library.find(functions.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
  library.find(functions.forward_algorithms, "cudnnGetConvolutionForwardAlgorithm_v7");
  library.find(functions.forward, "cudnnConvolutionForward");
  library.find(functions.data_algorithms, "cudnnGetConvolutionBackwardDataAlgorithm_v7");
  library.find(functions.data_gradient, "cudnnConvolutionBackwardData");
  library.find(functions.filter_algorithms, "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  library.find(functions.filter_gradient, "cudnnConvolutionBackwardFilter");
}

void find_layers(const SharedLibrary& library, CudnnFunctions& functions) {
  library.find(functions.create_pooling, "cudnnCreatePoolingDescriptor");
  library.find(functions.set_pooling, "cudnnSetPooling2dDescriptor");
  library.find(functions.destroy_pooling, "cudnnDestroyPoolingDescriptor");
  library.find(functions.pool, "cudnnPoolingForward");
  library.find(functions.pool_gradient, "cudnnPoolingBackward");
  library.find(functions.normalize_gradient, "cudnnBatchNormalizationBackward");
}

Cudnn& opened() {
  std::shared_ptr<void>& slot = LaunchScope::current().libraries().cudnn();
  if (slot == nullptr) slot = std::make_shared<Cudnn>();
  return *static_cast<Cudnn*>(slot.get());
}

}  // namespace

Cudnn::Cudnn() {
  if (environment_is("FERRY_CUDNN", "0") || !SharedLibrary::exists(cudnn_library())) return;
  const SharedLibrary library(cudnn_library());
  library.find(functions.create, "cudnnCreate");
  library.find(functions.destroy, "cudnnDestroy");
  library.find(functions.set_stream, "cudnnSetStream");
  library.find(functions.error_string, "cudnnGetErrorString");
  library.find(functions.create_tensor, "cudnnCreateTensorDescriptor");
  library.find(functions.set_tensor, "cudnnSetTensor4dDescriptorEx");
  library.find(functions.destroy_tensor, "cudnnDestroyTensorDescriptor");
  find_convolutions(library, functions);
  find_layers(library, functions);
  require(functions.create(&handle), "cudnnCreate");
  note_library_opened();
}

Cudnn::~Cudnn() {
  if (handle != nullptr && !process_is_ending()) functions.destroy(handle);
}

void Cudnn::require(cudnnStatus_t status, const char* call, const std::source_location& where) const {
  if (status != CUDNN_STATUS_SUCCESS) {
    fail_library("cuDNN", call, functions.error_string(status), static_cast<int>(status), where);
  }
}

bool has_cudnn() { return opened().handle != nullptr; }

Cudnn* current_cudnn() {
  Cudnn& cudnn = opened();
  if (cudnn.handle == nullptr) return nullptr;
  cudnn.require(cudnn.functions.set_stream(cudnn.handle, LaunchScope::current().stream()), "cudnnSetStream");
  return &cudnn;
}

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      return CUDNN_DATA_BFLOAT16;
  }
}

bool fits_cudnn(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent <= 0x7fffffff; }) &&
         shape.product() <= 0x7fffffff;
}

CudnnTensor::CudnnTensor(const Cudnn& cudnn, DType dtype, const Shape& shape, const Strides& strides) : cudnn_(cudnn) {
  const auto at = [](const Dims& dims, int axis) { return static_cast<int>(dims[axis]); };
  cudnn.require(cudnn.functions.create_tensor(&descriptor_), "cudnnCreateTensorDescriptor");
  const cudnnStatus_t set =
      cudnn.functions.set_tensor(descriptor_, cudnn_type(dtype), at(shape, 0), at(shape, 1), at(shape, 2), at(shape, 3),
                                 at(strides, 0), at(strides, 1), at(strides, 2), at(strides, 3));
  if (set == CUDNN_STATUS_SUCCESS) return;
  cudnn.functions.destroy_tensor(descriptor_);
  cudnn.require(set, "cudnnSetTensor4dDescriptorEx");
}

CudnnTensor::~CudnnTensor() { cudnn_.functions.destroy_tensor(descriptor_); }

}  // namespace ferry::cuda_backend
