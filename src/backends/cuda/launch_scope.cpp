#include "src/backends/cuda/launch_scope.h"

#include <fmt/format.h>

#include "src/base/check.h"

namespace ferry::cuda_backend {
namespace {

thread_local LaunchScope* current_scope = nullptr;

// Braces of a text that becomes a format.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '{' || c == '}') result += c;
    result += c;
  }
  return result;
}

}  // namespace

LaunchScope::LaunchScope(cudaStream_t stream, Workspace& workspace, Libraries& libraries, Faults& faults,
                         std::string_view op, const std::source_location& where)
    : stream_(stream),
      workspace_(workspace),
      libraries_(libraries),
      faults_(faults),
      op_(op),
      where_(where),
      outer_(current_scope) {
  current_scope = this;
}

LaunchScope::~LaunchScope() {
  workspace_.end_launch();
  current_scope = outer_;
}

LaunchScope& LaunchScope::current() {
  FERRY_CHECK(current_scope != nullptr, InvalidArgument, "a CUDA kernel was called outside of a launch");
  return *current_scope;
}

FaultSink LaunchScope::fault_sink(std::string text) {
  return faults_.expect(std::string(op_), where_, std::move(text));
}

FaultSink index_sink(const KernelContext& context, std::string_view name, std::string_view into, const Shape& shape,
                     std::int64_t lowest, std::int64_t bound, std::string_view also) {
  const std::string legal =
      bound > lowest ? fmt::format("which takes {} to {}", lowest, bound - 1) : std::string("which takes none");
  return LaunchScope::current().fault_sink(
      escaped(fmt::format("{}: {}[", context.op, name)) + "{position}] = {value}" +
      escaped(fmt::format(" is out of range for {} {}, {}{}", into, to_string(shape), legal, also)));
}

FaultSink divisor_sink(const KernelContext& context, const TensorView& divisor) {
  return LaunchScope::current().fault_sink(
      escaped(fmt::format("{}: the {} divisor of shape {} holds 0, and integers have no quotient by 0", context.op,
                          name_of(divisor.dtype), to_string(divisor.shape))));
}

void refuse_dtype(const KernelContext& context, DType dtype) {
  throw InvalidArgument(fmt::format("{}: no CUDA kernel for {}", context.op, name_of(dtype)));
}

}  // namespace ferry::cuda_backend
