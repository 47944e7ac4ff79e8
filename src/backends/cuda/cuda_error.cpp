#include "src/backends/cuda/cuda_error.h"

#include <fmt/format.h>

#include <ferry/error.h>

namespace ferry::cuda_backend {
namespace {

// From the root of the repository, wherever that was when it was compiled.
std::string place(const std::source_location& where) {
  std::string_view file = where.file_name();
  const std::size_t root = file.rfind("src/backends/cuda/");
  if (root != std::string_view::npos) file.remove_prefix(root);
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace

std::string describe(cudaError_t code, const char* call, const std::source_location& where) {
  return fmt::format("{}: {} ({}, {}), at {}", call, cudaGetErrorString(code), cudaGetErrorName(code),
                     static_cast<int>(code), place(where));
}

void check(cudaError_t code, const char* call, const std::source_location& where) {
  if (code == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();
  throw DeviceError(describe(code, call, where), static_cast<int>(code));
}

void fail_library(const char* library, const char* call, const char* text, int code,
                  const std::source_location& where) {
  throw DeviceError(fmt::format("{}: {}: {} ({}), at {}", library, call, text, code, place(where)), code);
}

}  // namespace ferry::cuda_backend
