// The names under which NVIDIA's libraries are installed. Apart from their users, so that tests can put stand-ins
// there.
#include "src/backends/cuda/libraries.h"

namespace ferry::cuda_backend {

#define FERRY_TEXT_OF(number) #number
#define FERRY_TEXT(number) FERRY_TEXT_OF(number)

const char* cublas_library() { return "libcublas.so." FERRY_TEXT(CUBLAS_VER_MAJOR); }
const char* cudnn_library() { return "libcudnn.so.9"; }
// Numbered as the toolkit, and so is cuBLAS.
const char* cupti_library() { return "libcupti.so." FERRY_TEXT(CUBLAS_VER_MAJOR); }

}  // namespace ferry::cuda_backend
