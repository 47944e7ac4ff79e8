#include "src/runtime/out_of_memory.h"

#include <fmt/format.h>

#include "src/runtime/budget.h"

namespace ferry {

OutOfMemory explain(const OutOfMemory& error, const ops::OpSchema& schema, ops::TensorPointers inputs, Device device,
                    std::source_location where, Budget* budget) {
  if (error.located()) return error;
  std::string message = error.what();
  if (budget != nullptr && budget->device() == device) {
    message += budget->shortage();
  } else if (device.is_gpu()) {
    message += fmt::format(" Put {} into a DeviceGuard<cpu> scope, where host memory serves it.",
                           inputs.empty() ? "the tensor" : fmt::format("this {}", schema.name));
  }
  OutOfMemory explained(std::move(message), error.figures());
  explained.locate(schema.name, where);
  return explained;
}

}  // namespace ferry
