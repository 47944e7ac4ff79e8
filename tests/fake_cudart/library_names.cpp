// Where a plug-in on the stand-in finds cuBLAS, cuDNN and CUPTI: in the stand-in.
#include "src/backends/cuda/libraries.h"

namespace ferry::cuda_backend {

const char* cublas_library() { return "libfake_cudart.so"; }
const char* cudnn_library() { return "libfake_cudart.so"; }
const char* cupti_library() { return "libfake_cudart.so"; }

}  // namespace ferry::cuda_backend
