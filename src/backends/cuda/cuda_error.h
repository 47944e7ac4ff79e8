// Errors of the CUDA runtime and its libraries as DeviceErrors: the vendor's name and code, the call and where it
// stands.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string>

namespace ferry::cuda_backend {

// What a failed call is reported as: "cudaMalloc(…): out of memory (cudaErrorMemoryAllocation, 2), at …:12".
std::string describe(cudaError_t code, const char* call, const std::source_location& where);

// Throws: DeviceError with the vendor's code, unless `code` is success. The runtime's last error is cleared.
void check(cudaError_t code, const char* call, const std::source_location& where = std::source_location::current());

// Of a library whose codes and texts are its own.
[[noreturn]] void fail_library(const char* library, const char* call, const char* text, int code,
                               const std::source_location& where = std::source_location::current());

}  // namespace ferry::cuda_backend

#define FERRY_CUDA(call) ::ferry::cuda_backend::check((call), #call)
