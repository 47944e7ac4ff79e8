// What the planner is told of normalisations: that y, and relu of it, are made again from the statistics that the call
// saved, where these are there.
#include <ferry/swap.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <ferry/ferry.h>
#include "src/runtime/budget.h"
#include "src/runtime/runtime_core.h"
#include "swap/iteration.h"
#include "tests/runtime/norm_net.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RecordedNorms : public OnSim {
 protected:
  const swap::Iteration& recorded() { return runtime_->core()->budget()->engine().last_iteration(); }

  std::vector<const swap::Op*> ops_named(const std::string& name) {
    std::vector<const swap::Op*> ops;
    for (const swap::Op& op : recorded().ops)
      if (op.name == name) ops.push_back(&op);
    return ops;
  }
  bool is_recomputable(swap::TensorIndex t) {
    const swap::Iteration& it = recorded();
    return it.storages[static_cast<std::size_t>(it.tensors[static_cast<std::size_t>(t)].storage)].recomputable;
  }
  // Bytes that come from elsewhere after the first op.
  Bytes created_later() {
    Bytes bytes;
    bool ran = false;
    for (const swap::Event& event : recorded().events) {
      ran = ran || event.kind == swap::Event::Kind::run;
      if (!ran || event.kind != swap::Event::Kind::create) continue;
      const swap::Tensor& tensor = recorded().tensors[static_cast<std::size_t>(event.index)];
      bytes += recorded().storages[static_cast<std::size_t>(tensor.storage)].size;
    }
    return bytes;
  }

  MemoryBudget budget_{MemoryBudgetOptions{.size = "256MiB"}};
};

TEST_F(RecordedNorms, ReadTheirStatisticsAgain) {
  NormNet net;
  for (int i = 0; i < 2; ++i) net.step();
  const auto norms = ops_named("batch_norm"), relus = ops_named("relu");
  ASSERT_EQ(norms.size(), 8u);
  ASSERT_EQ(relus.size(), 8u);
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const swap::Op &norm = *norms[i], &after = *relus[i];
    ASSERT_EQ(norm.outputs.size(), 3u);
    std::vector<swap::TensorIndex> again = norm.inputs;
    again.insert(again.end(), norm.outputs.begin() + 1, norm.outputs.end());
    EXPECT_EQ(norm.inputs_again, again);
    EXPECT_TRUE(is_recomputable(norm.outputs[0]));
    EXPECT_FALSE(is_recomputable(norm.outputs[1]) || is_recomputable(norm.outputs[2]));
    EXPECT_THAT(after.inputs, ElementsAre(norm.outputs[0]));
    EXPECT_EQ(after.inputs_again, again);
    EXPECT_TRUE(is_recomputable(after.outputs[0]));
  }
  for (const swap::Op& op : recorded().ops) {
    const bool is_expected = op.name == "batch_norm" || op.name == "relu";
    EXPECT_EQ(op.inputs_again.empty(), !is_expected) << op.name;
  }
}

// They are made again by the whole call then, and the rest with them.
TEST_F(RecordedNorms, MayHaveStatisticsThatNobodyKeeps) {
  const NormLayer layer;
  const Tensor images = some_images(), mean = zeros({kChannels}), variance = ones({kChannels});
  budget_.next_iteration();
  {
    const NoGrad no_grad;
    relu(batch_norm(layer.x(images), layer.gamma, layer.beta, mean, variance));
  }
  budget_.next_iteration();
  ASSERT_EQ(ops_named("batch_norm").size(), 1u);
  ASSERT_EQ(ops_named("relu").size(), 1u);
  const swap::Op &norm = *ops_named("batch_norm")[0], &after = *ops_named("relu")[0];
  EXPECT_THAT(norm.inputs_again, IsEmpty());
  for (const swap::TensorIndex output : norm.outputs) EXPECT_TRUE(is_recomputable(output));
  EXPECT_THAT(after.inputs_again,
              ElementsAre(norm.inputs[0], norm.inputs[1], norm.inputs[2], norm.outputs[1], norm.outputs[2]));
  EXPECT_TRUE(is_recomputable(after.outputs[0]));
}

TEST_F(RecordedNorms, WhatWasWrittenSinceIsNotTakenAsThere) {
  const NormLayer layer;
  const Tensor images = some_images();
  for (int i = 0; i < 2; ++i) {
    budget_.next_iteration();
    Tensor x = layer.x(images);
    const Tensor y = layer.normalized(x);
    {
      const NoGrad no_grad;
      x.add_(full({1}, 3));
    }
    relu(y);
  }
  budget_.next_iteration();
  ASSERT_EQ(ops_named("relu").size(), 1u);
  EXPECT_FALSE(is_recomputable(ops_named("relu")[0]->outputs[0]));
  EXPECT_EQ(created_later(), Bytes{});
}

TEST_F(RecordedNorms, WhatIsOlderThanTheIterationIsNotTakenAsThere) {
  const NormLayer layer;
  const Tensor images = some_images();
  Tensor y;
  {
    const NoGrad no_grad;
    y = layer.normalized(layer.x(images));
  }
  budget_.next_iteration();
  relu(images);
  relu(y);
  budget_.next_iteration();
  ASSERT_EQ(ops_named("relu").size(), 2u);
  EXPECT_FALSE(is_recomputable(ops_named("relu")[1]->outputs[0]));
  EXPECT_EQ(created_later(), Bytes{});
}

}  // namespace
}  // namespace ferry::test
