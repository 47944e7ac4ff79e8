#include "src/backends/cuda/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include <ferry/error.h>
#include "src/backends/cuda/cuda_error.h"

namespace ferry::cuda_backend {
namespace {

// Symbols of one shared library, which stays loaded: unloading a library that holds a CUDA context is not safe.
class SharedLibrary {
 public:
  static bool exists(const char* name) {
    void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
  }
  explicit SharedLibrary(const char* name) : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      throw DeviceError(fmt::format("{} cannot be loaded: {}; install the CUDA library or add its folder to "
                                    "LD_LIBRARY_PATH",
                                    name, dlerror()),
                        cudaErrorSharedObjectInitFailed);
    }
  }

  template <class Function>
  void find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    if (function == nullptr) {
      throw DeviceError(fmt::format("{} does not have {}; the plug-in needs a newer one", name_, symbol),
                        cudaErrorSharedObjectSymbolNotFound);
    }
  }

 private:
  const char* name_;
  void* handle_;
};

bool environment_is(const char* name, std::string_view value) {
  const char* const text = std::getenv(name);
  return text != nullptr && text == value;
}

}  // namespace

bool allows_tf32() {
  static const bool allowed = environment_is("FERRY_TF32", "1");
  return allowed;
}

struct Libraries::Cublas {
  CublasFunctions functions{};
  cublasHandle_t handle = nullptr;

  Cublas() {
    const SharedLibrary library(cublas_library());
    library.find(functions.create, "cublasCreate_v2");
    library.find(functions.destroy, "cublasDestroy_v2");
    library.find(functions.set_stream, "cublasSetStream_v2");
    library.find(functions.status_string, "cublasGetStatusString");
    library.find(functions.gemm, "cublasGemmEx_64");
    library.find(functions.gemm_strided, "cublasGemmStridedBatchedEx_64");
    library.find(functions.gemm_batched, "cublasGemmBatchedEx_64");
    require(functions.create(&handle), "cublasCreate_v2");
  }
  ~Cublas() { functions.destroy(handle); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  void require(cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) {
      fail_library("cuBLAS", call, functions.status_string(status), static_cast<int>(status));
    }
  }
};

struct Libraries::Cudnn {
  CudnnFunctions functions{};
  cudnnHandle_t handle = nullptr;

  Cudnn() {
    const SharedLibrary library(cudnn_library());
    library.find(functions.create, "cudnnCreate");
    library.find(functions.destroy, "cudnnDestroy");
    library.find(functions.set_stream, "cudnnSetStream");
    library.find(functions.error_string, "cudnnGetErrorString");
    library.find(functions.create_tensor, "cudnnCreateTensorDescriptor");
    library.find(functions.set_tensor, "cudnnSetTensor4dDescriptorEx");
    library.find(functions.destroy_tensor, "cudnnDestroyTensorDescriptor");
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
    require(functions.create(&handle), "cudnnCreate");
  }
  ~Cudnn() { functions.destroy(handle); }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  void require(cudnnStatus_t status, const char* call) const {
    if (status != CUDNN_STATUS_SUCCESS) {
      fail_library("cuDNN", call, functions.error_string(status), static_cast<int>(status));
    }
  }
};

Libraries::Libraries() = default;
Libraries::~Libraries() = default;

const CublasFunctions& Libraries::cublas() {
  if (cublas_ == nullptr) cublas_ = std::make_unique<Cublas>();
  return cublas_->functions;
}

cublasHandle_t Libraries::cublas_handle(cudaStream_t stream) {
  cublas();
  cublas_->require(cublas_->functions.set_stream(cublas_->handle, stream), "cublasSetStream_v2");
  return cublas_->handle;
}

const CudnnFunctions* Libraries::cudnn() {
  if (!looked_for_cudnn_) {
    looked_for_cudnn_ = true;
    const bool wanted = !environment_is("FERRY_CUDNN", "0");
    if (wanted && SharedLibrary::exists(cudnn_library())) cudnn_ = std::make_unique<Cudnn>();
  }
  return cudnn_ == nullptr ? nullptr : &cudnn_->functions;
}

cudnnHandle_t Libraries::cudnn_handle(cudaStream_t stream) {
  cudnn_->require(cudnn_->functions.set_stream(cudnn_->handle, stream), "cudnnSetStream");
  return cudnn_->handle;
}

}  // namespace ferry::cuda_backend
