#include <ferry/max_batch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ferry/models.h>
#include <ferry/ops.h>
#include <ferry/optim.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int64_t> batches(const MaxBatch& found) {
  std::vector<std::int64_t> result;
  for (const BatchTry& each : found.tries) result.push_back(each.batch);
  return result;
}

// A MiB a sample on a device of 100 MiB; segments are whole MiB.
class FindMaxBatch : public ::testing::Test {
 protected:
  static Backend small_device() {
    Backend backend = sim_backend();
    backend.options.device_memory = kMiB * 100;
    return backend;
  }
  static void step(std::int64_t batch) { const Tensor activations = zeros({batch * 2, 1 << 17}); }

  CheckedRuntime runtime_{small_device()};
};

TEST_F(FindMaxBatch, DoublesThenBisects) {
  const MaxBatch found = find_max_batch(*runtime_, step);
  EXPECT_EQ(found.batch, 100);
  EXPECT_EQ(batches(found), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64, 128, 96, 112, 104, 100, 102, 101}));
  EXPECT_TRUE(found.best.fits);
  EXPECT_EQ(found.best.batch, 100);
  EXPECT_EQ(found.best.peak_allocated, kMiB * 100);
  EXPECT_GT(found.best.step.count(), 0);
  EXPECT_THAT(found.tries.back().error, HasSubstr("out of memory"));
}

TEST_F(FindMaxBatch, StopsAtTheLimitAndSaysWhenNothingFits) {
  EXPECT_EQ(find_max_batch(*runtime_, step, {.limit = 20}).batch, 20);
  EXPECT_EQ(find_max_batch(*runtime_, step, {.first = 3, .limit = 3}).batch, 3);
  const MaxBatch none = find_max_batch(*runtime_, step, {.first = 101});
  EXPECT_EQ(none.batch, 0);
  EXPECT_EQ(batches(none), std::vector<std::int64_t>{101});
}

// What one try leaves behind decides about the next, so it is put back after each.
TEST_F(FindMaxBatch, RestoresAfterEveryTry) {
  std::vector<Tensor> kept;
  int restored = 0;
  const auto keep = [&](std::int64_t batch) { kept.push_back(zeros({batch * 2, 1 << 17})); };
  const MaxBatch found = find_max_batch(*runtime_, keep, {.steps = 2, .restore = [&] { kept.clear(), ++restored; }});
  EXPECT_EQ(found.batch, 50);
  EXPECT_EQ(restored, static_cast<int>(found.tries.size()));
}

TEST_F(FindMaxBatch, OtherErrorsAreTheCallers) {
  EXPECT_THROW(find_max_batch(*runtime_, [](std::int64_t) { throw ShapeError("odd"); }), ShapeError);
  EXPECT_THROW(find_max_batch(*runtime_, step, {.first = 0}), InvalidArgument);
  EXPECT_THROW(find_max_batch(*runtime_, step, {.first = 9, .limit = 8}), InvalidArgument);
}

TEST(FindMaxBatchOfAModel, AnswersInTimingOnlyMode) {
  Backend backend = timing_only_backend();
  CheckedRuntime runtime(backend);
  const auto model = models::make("resnet18", {.small = true});
  optim::Sgd optimizer(*model, {.rate = 0.1});
  const MaxBatch found = find_max_batch(*runtime,
                                        [&](std::int64_t batch) {
                                          model->loss(model->random_batch(batch, 0)).backward();
                                          optimizer.step();
                                          optimizer.zero_grad();
                                        },
                                        {.restore = [&] { optimizer.zero_grad(); }});
  EXPECT_GT(found.batch, 10);
  EXPECT_LE(found.best.peak_reserved, kMiB * 512);
  // Larger batches take less time a sample.
  EXPECT_LT(found.best.milliseconds_per_sample(), found.tries[0].milliseconds_per_sample());
}

}  // namespace
}  // namespace ferry::test
