// cuBLAS and cuDNN, opened when a kernel first needs them, and CUPTI, opened when work is first traced, so that the
// plug-in loads and its other kernels run where they are missing.
//
// Thread-safety: none, the driver locks.
#pragma once

#include <cublas_v2.h>

#include <memory>

namespace ferry::cuda_backend {

// Where the libraries are looked for; the loader's paths and the plug-in's own apply.
const char* cublas_library();
const char* cudnn_library();
const char* cupti_library();

// Whether f32 may be rounded to TensorFloat-32 on its way into products: FERRY_TF32=1.
bool allows_tf32();

// Whether the process runs its exit handlers. Those of a library may have run already; its handles are left alone then.
// Requires: note_library_opened() was called after the library was opened.
bool process_is_ending();
void note_library_opened();

// The functions of cuBLAS that kernels call.
struct CublasFunctions {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasGetStatusString) status_string;
  decltype(&cublasGemmEx_64) gemm;
  decltype(&cublasGemmStridedBatchedEx_64) gemm_strided;
  decltype(&cublasGemmBatchedEx_64) gemm_batched;
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

  // Where cudnn_library.cpp keeps what it opened; empty until it was looked for.
  std::shared_ptr<void>& cudnn() { return cudnn_; }

 private:
  struct Cublas;
  std::unique_ptr<Cublas> cublas_;
  std::shared_ptr<void> cudnn_;
};

}  // namespace ferry::cuda_backend
