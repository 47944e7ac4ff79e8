// Memory on the CUDA driver: budgets, allocations that fail, and calls that fail, with nothing left behind.
#include <gmock/gmock.h>

#include <ferry/ops.h>
#include <ferry/swap.h>
#include "tests/cuda/cuda_fixture.h"
#include "tests/runtime/training_step.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

class CudaMemory : public OnFakeCuda {
 protected:
  CudaMemory() { fake_cuda::reset(); }
};

// The gradient of a chain whose activations take some 100 MiB.
struct Chain {
  std::vector<float> gradient;
  Bytes peak;
  std::int64_t evictions = 0;
};

Chain run_chain(const std::string& budget_size) {
  constexpr std::int64_t kElements = 1 << 20;
  constexpr int kLength = 12;
  CheckedRuntime runtime(cuda_backend());
  Chain chain;
  {
    std::optional<MemoryBudget> budget;
    if (!budget_size.empty()) budget.emplace(budget_size);
    Tensor x = uniform({kElements}, -1, 1);
    x.set_requires_grad();
    Tensor y = x;
    for (int i = 0; i < kLength; ++i) y = tanh(y * 1.1) + y;
    sum(y).backward();
    chain.gradient = x.grad().to_vector<float>();
    chain.peak = runtime->memory_stats(gpu::device).peak_reserved;
    if (budget) chain.evictions = budget->stats().evictions;
  }
  return chain;
}

TEST_F(CudaMemory, ABudgetIsKeptAndLeavesEveryBitOfTheResult) {
  const Chain free = run_chain(""), kept = run_chain("48MiB");
  EXPECT_GT(free.peak, kMiB * 64);
  EXPECT_LE(kept.peak, kMiB * 48);
  EXPECT_GT(kept.evictions, 0);
  EXPECT_EQ(kept.gradient, free.gradient);
}

double loss_of_two_steps() {
  CheckedRuntime runtime(cuda_backend());
  TrainingStep program;
  program.step(0);
  return program.step(1);
}

TEST_F(CudaMemory, AStepWhoseAllocationsFailThrowsOrGivesItsResult) {
  const double expected = loss_of_two_steps();
  for (const char* function : {"cudaMalloc", "cudaHostAlloc"}) {
    const int calls = fake_cuda::calls(function);
    ASSERT_GT(calls, 0);
    for (int n = 3; n <= calls; ++n) {  // the first ones belong to making the driver
      SCOPED_TRACE(std::string(function) + " " + std::to_string(n));
      fake_cuda::reset();
      fake_cuda::fail(function, n, cudaErrorMemoryAllocation);
      try {
        EXPECT_EQ(loss_of_two_steps(), expected);
      } catch (const OutOfMemory&) {
      }
    }
  }
}

TEST_F(CudaMemory, CallsThatFailAreDeviceErrorsAndLeaveNothingBehind) {
  const double expected = loss_of_two_steps();
  for (const char* function : {"cudaMemcpyAsync", "cudaLaunchHostFunc", "cudaStreamWaitEvent", "cudaEventRecord",
                               "cudaEventSynchronize", "cublasGemmEx"}) {
    fake_cuda::reset();
    loss_of_two_steps();
    const int calls = fake_cuda::calls(function);
    ASSERT_GT(calls, 0) << function;
    int thrown = 0;
    for (int n = 1; n <= calls; n += 1 + calls / 8) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(n));
      fake_cuda::reset();
      fake_cuda::fail(function, n, cudaErrorLaunchFailure);
      try {
        EXPECT_EQ(loss_of_two_steps(), expected) << "an error was lost";
      } catch (const DeviceError&) {
        ++thrown;
      }
    }
    EXPECT_GT(thrown, 0) << function;
  }
}

}  // namespace
}  // namespace ferry::test
