#include "src/backends/cuda/libraries.h"

#include <atomic>
#include <cstdlib>

#include "src/backends/cuda/cuda_error.h"
#include "src/backends/cuda/shared_library.h"

namespace ferry::cuda_backend {
namespace {

std::atomic<bool> ending{false};

}  // namespace

bool process_is_ending() { return ending; }

void note_library_opened() {
  std::atexit([] { ending = true; });
}

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
    library.find(functions.set_math_mode, "cublasSetMathMode");
    library.find(functions.status_string, "cublasGetStatusString");
    library.find(functions.gemm, "cublasGemmEx_64");
    library.find(functions.gemm_strided, "cublasGemmStridedBatchedEx_64");
    library.find(functions.gemm_batched, "cublasGemmBatchedEx_64");
    require(functions.create(&handle), "cublasCreate_v2");
    note_library_opened();
    // 16-bit products are added up in f32 where a sum is split among blocks, too.
    constexpr int kMode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    require(functions.set_math_mode(handle, static_cast<cublasMath_t>(kMode)), "cublasSetMathMode");
  }
  ~Cublas() {
    if (!process_is_ending()) functions.destroy(handle);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  void require(cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) {
      fail_library("cuBLAS", call, functions.status_string(status), static_cast<int>(status));
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

}  // namespace ferry::cuda_backend
