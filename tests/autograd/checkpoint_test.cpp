// Regions computed again in backward: the same bits, kept state updated once, less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <ferry/attention.h>
#include <ferry/checkpoint.h>
#include <ferry/device_guard.h>
#include <ferry/nn.h>
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include <ferry/profiler.h>
#include <ferry/random.h>
#include "src/runtime/phase.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A convolution, batch norm with running statistics, and noise where dropout would be.
class Block : public nn::Module {
 public:
  explicit Block(std::int64_t channels) {
    conv_ = register_module("conv", std::make_shared<nn::Conv2d>(channels, channels, std::array<std::int64_t, 2>{3, 3},
                                                                 Conv2dOptions{.padding = {1, 1}}));
    norm_ = register_module("norm", std::make_shared<nn::BatchNorm2d>(channels));
  }

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu((*norm_)((*conv_)(x)));
    return y * uniform(y.shape(), 0.5, 1.5) + x;
  }

 private:
  std::shared_ptr<nn::Conv2d> conv_;
  std::shared_ptr<nn::BatchNorm2d> norm_;
};

enum class How { plain, each, nested, sequential };

Tensor run_blocks(const std::vector<std::shared_ptr<Block>>& blocks, const Tensor& x, How how) {
  if (how == How::sequential) return checkpoint_sequential(blocks, 2, x);
  const auto all = [&blocks, how](const Tensor& input) {  // is called once more, by backward
    Tensor y = input;
    for (const auto& block : blocks) {
      y = how == How::plain ? (*block)(y) : checkpoint([block](const Tensor& in) { return (*block)(in); }, y);
    }
    return y;
  };
  return how == How::nested ? checkpoint(all, x) : all(x);
}

// Everything that a step of training changes, after two of them.
std::vector<std::vector<float>> train(How how) {
  set_random_state({.seed = 3});
  std::vector<std::shared_ptr<Block>> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(std::make_shared<Block>(4));
  const Tensor x = normal({2, 4, 5, 5}).set_requires_grad(), scale = full({1}, 0.5).set_requires_grad();
  std::vector<std::vector<float>> values;
  for (int step = 0; step < 2; ++step) {
    const Tensor shifted = x * scale;  // the regions' input has a graph of its own
    const Tensor loss = mean(square(run_blocks(blocks, shifted, how)) + mean(shifted));
    loss.backward();
    values.push_back(loss.to_vector<float>());
  }
  values.push_back(x.grad().to_vector<float>());
  values.push_back(scale.grad().to_vector<float>());
  values.push_back(uniform({4}).to_vector<float>());
  for (const auto& block : blocks) {
    for (const auto& parameter : block->parameters()) values.push_back(parameter.tensor.grad().to_vector<float>());
    for (const auto& buffer : block->buffers()) values.push_back(buffer.tensor.to_vector<float>());
  }
  return values;
}

class Checkpoint : public OnBackend {};

TEST_P(Checkpoint, GradientsStatisticsAndRandomNumbersAreThoseWithout) {
  const auto plain = train(How::plain);
  EXPECT_EQ(train(How::each), plain);
  EXPECT_EQ(train(How::nested), plain);
  EXPECT_EQ(train(How::sequential), plain);
}

TEST_P(Checkpoint, SeveralInputsAndResults) {
  const auto gradients = [](bool kept) {
    set_random_state({.seed = 5});
    const Tensor a = uniform({3}).set_requires_grad(), b = uniform({3}).set_requires_grad(), c = uniform({3});
    const CheckpointRegion region = [b](const std::vector<Tensor>& in) {
      const Tensor product = in[0] * in[1];
      return std::vector<Tensor>{tanh(product), product * b, argmax(in[0]), in[1], {}};
    };
    const Tensor twice = a * 2.0;
    const std::vector<Tensor> in = {twice, c, {}};
    const auto out = kept ? region(in) : checkpoint(region, in);
    EXPECT_EQ(out[2].dtype(), DType::i64);
    EXPECT_FALSE(out[4].defined());
    sum(out[0] + out[3] * twice).backward({}, {.retain_graph = true});
    sum(out[1]).backward();  // the second result alone
    return std::pair(a.grad().to_vector<float>(), b.grad().to_vector<float>());
  };
  EXPECT_EQ(gradients(false), gradients(true));
}

TEST_P(Checkpoint, DropoutDropsTheSameAgain) {
  const auto gradient = [](bool kept) {
    set_random_state({.seed = 4});
    const Tensor x = uniform({2, 6, 8}).set_requires_grad();
    const auto region = [](const Tensor& in) { return scaled_dot_product_attention(in, in, in, {.dropout = 0.5}); };
    const Tensor y = kept ? region(region(x)) : checkpoint(region, checkpoint(region, x));
    sum(square(y)).backward();
    return x.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(false), gradient(true));
}

TEST_P(Checkpoint, RetainedGraphsAreComputedAgainEachTime) {
  const Tensor x = from_vector<float>({1, 2}).set_requires_grad();
  int runs = 0;
  const Tensor y = sum(checkpoint(
      [&](const Tensor& in) {
        ++runs;
        return in * in;
      },
      x));
  EXPECT_EQ(runs, 1);
  y.backward({}, {.retain_graph = true});
  y.backward();
  EXPECT_EQ(runs, 3);
  EXPECT_THAT(x.grad().to_vector<float>(), ElementsAre(4, 8));
  EXPECT_THAT(message_of<InvalidArgument>([&] { y.backward(); }), HasSubstr("retain_graph"));
}

TEST_P(Checkpoint, NothingIsKeptWhereNothingNeedsAGradient) {
  const Tensor x = uniform({4});
  const auto region = [](const Tensor& in) { return in * in; };
  EXPECT_FALSE(checkpoint(region, x).requires_grad());
  const Tensor leaf = uniform({4}).set_requires_grad();
  {
    const NoGrad no_grad;
    EXPECT_FALSE(checkpoint(region, leaf).requires_grad());
  }
  const auto hidden = [&](const Tensor& in) {
    const NoGrad no_grad;
    return in * leaf;
  };
  EXPECT_FALSE(checkpoint(hidden, x).requires_grad());
  EXPECT_TRUE(checkpoint([&](const Tensor& in) { return in * leaf; }, x).requires_grad());
}

TEST_P(Checkpoint, AnInputThatIsAlsoTheResultStaysItself) {
  const Tensor x = from_vector<float>({1, 2}).set_requires_grad();
  const Tensor y = checkpoint([](const Tensor& in) { return in; }, x);
  EXPECT_TRUE(x.is_leaf());
  sum(y * 3.0).backward();
  EXPECT_THAT(x.grad().to_vector<float>(), ElementsAre(3, 3));
}

TEST_P(Checkpoint, RunsAgainWhereItRan) {
  const Tensor x = uniform({4}).set_requires_grad();
  std::vector<Device> devices;
  std::vector<trace::Phase> phases;
  Tensor y;
  {
    const DeviceGuard<cpu> guard;
    y = checkpoint(
        [&](const Tensor& in) {
          const Tensor noise = uniform({4});
          devices.push_back(noise.device());
          phases.push_back(current_phase());
          return in * noise;
        },
        x);
  }
  sum(y).backward();
  EXPECT_THAT(devices, ElementsAre(cpu::device, cpu::device));
  EXPECT_THAT(phases, ElementsAre(trace::Phase::forward, trace::Phase::recompute));
}

TEST_P(Checkpoint, AnErrorInTheSecondRunLeavesACleanState) {
  Tensor weight = uniform({3}).set_requires_grad();
  const Tensor x = uniform({3}).set_requires_grad();
  bool fails = false;
  const auto region = [&](const Tensor& in) {
    const Tensor y = in * weight * uniform({3});
    return fails ? y + uniform({2}) : tanh(y);
  };
  const Tensor y = sum(checkpoint(region, x));
  fails = true;
  const RandomState before = random_state();
  EXPECT_THAT(message_of<ShapeError>([&] { y.backward({}, {.retain_graph = true}); }),
              HasSubstr("checkpoint_test.cpp"));
  EXPECT_EQ(random_state(), before);
  EXPECT_TRUE(grad_enabled());
  EXPECT_EQ(current_phase(), trace::Phase::forward);
  EXPECT_FALSE(x.has_grad());
  EXPECT_FALSE(weight.has_grad());
  fails = false;
  y.backward();
  EXPECT_TRUE(x.has_grad());
  EXPECT_TRUE(weight.has_grad());
}

TEST_P(Checkpoint, ChangesInBetweenAreNoticed) {
  Tensor weight = named(uniform({3}), "weight").set_requires_grad();
  const Tensor x = uniform({3});
  const Tensor y = sum(checkpoint([&](const Tensor& in) { return in * weight; }, x));
  {
    const NoGrad no_grad;
    weight.mul_(2.0);
  }
  EXPECT_THAT(message_of<InvalidArgument>([&] { y.backward(); }),
              AllOf(HasSubstr("'weight'"), HasSubstr("changed in place"), HasSubstr("checkpoint_test.cpp")));

  Tensor changed = uniform({3});
  const Tensor z =
      sum(checkpoint([&](const Tensor& in) { return in * 2.0; }, uniform({3}).set_requires_grad() + changed));
  changed.fill_(0);  // not an input
  z.backward();

  int runs = 0;
  const Tensor other =
      sum(checkpoint([&](const Tensor& in) { return narrow(in, 0, 0, ++runs); }, uniform({3}).set_requires_grad()));
  EXPECT_THAT(message_of<InvalidArgument>([&] { other.backward(); }), AllOf(HasSubstr("[2]"), HasSubstr("[1]")));
}

TEST_P(Checkpoint, SequentialSegments) {
  std::vector<std::function<Tensor(const Tensor&)>> layers;
  for (int i = 0; i < 7; ++i) layers.emplace_back([](const Tensor& x) { return tanh(x); });
  const auto gradient = [&](std::size_t segments) {
    const Tensor x = full({3}, 0.5).set_requires_grad();
    sum(checkpoint_sequential(layers, segments, x)).backward();
    return x.grad().to_vector<float>();
  };
  const auto plain = gradient(1);
  for (std::size_t segments = 2; segments <= 7; ++segments) EXPECT_EQ(gradient(segments), plain);
  EXPECT_THROW(gradient(0), InvalidArgument);
  EXPECT_THROW(gradient(8), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, Checkpoint, each_backend(), backend_name);

class CheckpointOnSim : public OnSim {};

TEST_F(CheckpointOnSim, ThePeakIsSegmentsPlusTheirLength) {
  constexpr std::int64_t kElements = 1 << 20;
  constexpr Bytes kLayer{kElements * 4};
  std::vector<std::function<Tensor(const Tensor&)>> layers;
  for (int i = 0; i < 16; ++i) layers.emplace_back([](const Tensor& x) { return tanh(x); });
  const auto peak = [&](std::size_t segments) {
    const Tensor x = (uniform({kElements}) * 1.0).set_requires_grad();
    runtime_->synchronize();
    runtime_->reset_peak_memory(gpu::device);
    sum(checkpoint_sequential(layers, segments, x)).backward();
    return runtime_->memory_stats(gpu::device).peak_allocated;
  };
  const auto layers_at_peak = [&](std::size_t segments) { return peak(segments).count / kLayer.count; };
  EXPECT_GE(layers_at_peak(1), 16);
  // 3 segments' inputs, the 4 results of one, and gradients on their way.
  EXPECT_LE(layers_at_peak(4), 4 + 4 + 3);
}

TEST_F(CheckpointOnSim, TheTraceTellsTheSecondRun) {
  std::ostringstream trace;
  {
    Profiler profiler;
    const Tensor x = uniform({4}).set_requires_grad();
    sum(checkpoint([](const Tensor& in) { return tanh(in); }, x)).backward();
    profiler.write_trace(trace);
  }
  EXPECT_THAT(trace.str(), HasSubstr("recompute"));
}

TEST_F(CheckpointOnSim, RandomStateIsRestored) {
  const RandomState start = random_state();
  const auto first = uniform({4}).to_vector<float>();
  const RandomState after = random_state();
  EXPECT_EQ(after.offset - start.offset, 4u);
  {
    const RestoredRandomState again(start);
    EXPECT_EQ(uniform({4}).to_vector<float>(), first);
  }
  EXPECT_EQ(random_state(), after);
  set_random_state(start);
  EXPECT_EQ(uniform({4}).to_vector<float>(), first);
}

}  // namespace
}  // namespace ferry::test
