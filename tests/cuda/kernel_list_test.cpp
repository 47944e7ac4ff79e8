// The CUDA backend has a kernel for every op that has one on the CPU.
#include <gtest/gtest.h>

#include <set>

#include "src/backends/cpu/cpu_driver.h"
#include "src/ops/op_list.h"
#include "tests/cuda/cuda_fixture.h"

namespace ferry {
namespace {

std::string_view kernel_name(const ops::OpSchema& schema) {
  return schema.kernel.empty() ? schema.name : schema.kernel;
}

std::set<std::string_view> names_of(std::span<const KernelEntry> kernels) {
  std::set<std::string_view> names;
  for (const KernelEntry& entry : kernels) EXPECT_TRUE(names.insert(entry.op).second) << entry.op << " is listed twice";
  return names;
}

TEST(CudaKernelList, HasEveryOpThatMayRunOnAGpu) {
  fake_cuda::reset();
  const auto driver = make_fake_cuda();
  const auto host = make_cpu_driver({});
  const std::set<std::string_view> cuda = names_of(driver->kernels()), cpu = names_of(host->kernels());
  int checked = 0;
  for (const ops::OpSchema* schema : ops::all_ops()) {
    if (schema->runs_on_cpu || !cpu.contains(kernel_name(*schema))) continue;
    ++checked;
    EXPECT_TRUE(cuda.contains(kernel_name(*schema))) << schema->name << " would run on the CPU";
  }
  EXPECT_GT(checked, 100);
}

}  // namespace
}  // namespace ferry
