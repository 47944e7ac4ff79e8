// The suite of every driver with a kernel of the plug-in's own: on the stand-in, and by scripts/gpu_check on a GPU.
#include "src/base/check.h"
#include "src/device/plugin.h"
#include "src/ops/attributes.h"
#include "tests/support/driver_conformance.h"

namespace ferry {
namespace {

Kernel add_scalar = nullptr;

void device_add_kernel(const KernelContext& context) {
  const Attributes attributes = ops::ScalarAttributes{context.attributes.as<float>()};
  add_scalar({.op = "add_scalar",
              .inputs = context.inputs,
              .outputs = context.outputs,
              .attributes = attributes,
              .stream = context.stream});
}

std::unique_ptr<Driver> make_driver() {
  auto driver = Plugin::load(FERRY_CUDA_TESTED)->make_driver(0, {DeviceType::gpu, 0});
  for (const KernelEntry& entry : driver->kernels()) {
    if (entry.op == "add_scalar") add_scalar = entry.kernel;
  }
  FERRY_CHECK(add_scalar != nullptr, InvalidArgument, "the plug-in has no kernel for add_scalar");
  return driver;
}

// What of a real GPU's memory can be had in quarters is not known beforehand.
INSTANTIATE_TEST_SUITE_P(CudaKernels, DriverConformance,
                         testing::Values(DriverCase{
                             .name = "cuda", .make = make_driver, .add = device_add_kernel, .own_memory = false}),
                         name_of_case);

}  // namespace
}  // namespace ferry
