// The plug-in as nvcc compiled it, on the stand-in: which kernels it launches, with how many threads.
#include <gmock/gmock.h>

#include <set>

#include <ferry/activations.h>
#include <ferry/ops.h>
#include <ferry/optim.h>
#include <ferry/reductions.h>
#include "src/ops/op_list.h"
#include "src/runtime/runtime_core.h"
#include "tests/fake_cudart/fake_cudart.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using testing::HasSubstr;

class CudaLaunches : public ::testing::Test {
 protected:
  CudaLaunches() { fake_cuda::reset(); }

  // What `call` launched.
  template <class Call>
  static std::vector<fake_cuda::Launch> launches_of(const Call& call) {
    const std::size_t before = fake_cuda::launches().size();
    call();
    std::vector<fake_cuda::Launch> launches = fake_cuda::launches();
    launches.erase(launches.begin(), launches.begin() + static_cast<std::ptrdiff_t>(before));
    return launches;
  }

  CheckedRuntime runtime_{{"cuda", {.device = std::string("plugin:") + FERRY_CUDA_LOGGED}}};
};

TEST_F(CudaLaunches, ElementwiseKernelsCoverEveryElement) {
  const Tensor x = zeros({1000, 1001});
  const auto launches = launches_of([&] { const Tensor y = x + x; });
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_THAT(launches[0].kernel, HasSubstr("element_kernel"));
  EXPECT_EQ(launches[0].block.x, 256u);
  EXPECT_EQ(launches[0].grid.x, (1000u * 1001u + 1023u) / 1024u);
}

TEST_F(CudaLaunches, EveryRowHasATeamAsLongAsTheRow) {
  const Tensor wide = zeros({300, 1000}), narrow = zeros({7, 20});
  const auto of_wide = launches_of([&] { const Tensor y = softmax(wide, 1); });
  ASSERT_EQ(of_wide.size(), 1u);
  EXPECT_THAT(of_wide[0].kernel, HasSubstr("row_kernel"));
  EXPECT_EQ(of_wide[0].grid.x, 300u);
  EXPECT_EQ(of_wide[0].block.x, 256u);
  const auto of_narrow = launches_of([&] { const Tensor y = softmax(narrow, 1); });
  ASSERT_EQ(of_narrow.size(), 1u);
  EXPECT_EQ(of_narrow[0].grid.x, 7u);
  EXPECT_EQ(of_narrow[0].block.x, 32u);
}

TEST_F(CudaLaunches, LargeReductionsAreCutIntoPiecesAndSmallOnesAreNot) {
  const Tensor large = zeros({4, 1 << 20}), small = zeros({4, 100});
  const auto of_large = launches_of([&] { const Tensor y = sum(large, {1}); });
  ASSERT_EQ(of_large.size(), 2u);
  EXPECT_EQ(of_large[0].grid.x, 4u * 256u);
  const auto of_small = launches_of([&] { const Tensor y = sum(small, {1}); });
  ASSERT_EQ(of_small.size(), 1u);
  EXPECT_EQ(of_small[0].grid.x, 4u);
}

TEST_F(CudaLaunches, AProductIsOneCallOfCublas) {
  const Tensor a = zeros({64, 32}), b = zeros({32, 16});
  const auto launches = launches_of([&] { const Tensor y = matmul(a, b); });
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].kernel, "cublasGemmEx");
}

TEST_F(CudaLaunches, AStepOfManyParametersIsAFewLaunches) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 40; ++i) parameters.push_back(zeros({10}).set_requires_grad());
  Tensor total = sum(parameters[0]);
  for (int i = 1; i < 40; ++i) total = total + sum(parameters[static_cast<std::size_t>(i)]);
  total.backward();
  optim::Sgd sgd(parameters, {});
  const auto launches = launches_of([&] { sgd.step(); });
  EXPECT_EQ(launches.size(), 2u);
}

TEST_F(CudaLaunches, EveryKernelOfTheListBelongsToAnOp) {
  std::set<std::string_view> kernels;
  for (const ops::OpSchema* schema : ops::all_ops()) {
    kernels.insert(schema->kernel.empty() ? schema->name : schema->kernel);
  }
  for (const KernelEntry& entry : runtime_->core()->context(gpu::device).driver->kernels()) {
    EXPECT_TRUE(kernels.contains(entry.op)) << entry.op;
  }
}

}  // namespace
}  // namespace ferry::test
