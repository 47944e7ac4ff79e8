// Memory budgets as programs use and misuse them: each program's numbers are those that it has without a budget.
#include <ferry/swap.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

#include <ferry/ferry.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::HasSubstr;
using Bits = std::vector<std::vector<float>>;

// A deep net with batch norm and dropout, and its optimizer.
class Net {
 public:
  explicit Net(double rate = 0.01) {
    for (int i = 0; i < kLayers; ++i) weights_.push_back(normal({kWidth, kWidth}, 0, 0.2).set_requires_grad());
    std::vector<Tensor> parameters = weights_;
    parameters.push_back(gamma_);
    parameters.push_back(beta_);
    optimizer_.emplace(parameters, optim::AdamOptions{.rate = rate});
  }

  Tensor forward(std::int64_t rows, const std::function<void(int)>& before_layer = {}, bool training = true) {
    Tensor y = normal({rows, kWidth});
    for (int i = 0; i < kLayers; ++i) {
      if (before_layer) before_layer(i);
      const Tensor normalized = batch_norm(matmul(y, weights_[static_cast<std::size_t>(i)]), gamma_, beta_, mean_,
                                           variance_, {.training = training});
      y = y + (training ? dropout(relu(normalized), 0.3) : relu(normalized));
    }
    return mean(square(y));
  }
  void update() {
    optimizer_->step();
    optimizer_->zero_grad();
  }
  void zero_grad() { optimizer_->zero_grad(); }
  float step(std::int64_t rows) {
    const Tensor loss = forward(rows);
    loss.backward();
    update();
    return loss.to_vector<float>()[0];
  }
  void add_to(Bits& bits) const {
    for (const Tensor& weight : weights_) bits.push_back(weight.to_vector<float>());
    for (const Tensor* each : {&gamma_, &beta_, &mean_, &variance_}) bits.push_back(each->to_vector<float>());
  }

 private:
  static constexpr int kLayers = 5;
  static constexpr std::int64_t kWidth = 64;

  std::vector<Tensor> weights_;
  Tensor gamma_ = ones({kWidth}).set_requires_grad(), beta_ = zeros({kWidth}).set_requires_grad();
  Tensor mean_ = zeros({kWidth}), variance_ = ones({kWidth});
  std::optional<optim::Adam> optimizer_;
};

// What a program does, and returns. It may begin and end the budget itself; null: it runs without one.
using Program = std::function<Bits(std::optional<MemoryBudget>* budget)>;

// Its bits under a part of the memory that it takes without a budget, and without.
void expect_same(const Program& program, double part = 0.6, const MemoryBudgetOptions& options = {}) {
  Bits expected;
  Bytes peak{};
  {
    CheckedRuntime runtime{sim_backend()};
    expected = program(nullptr);
    peak = runtime->memory_stats(gpu::device).peak_allocated;
  }
  CheckedRuntime runtime{adversarial_backend(5)};
  MemoryBudgetOptions limited = options;
  limited.size = std::to_string(static_cast<std::int64_t>(static_cast<double>(peak.count) * part));
  std::optional<MemoryBudget> budget(limited);
  EXPECT_EQ(program(&budget), expected);
  if (!budget) return;
  EXPECT_GT(budget->stats().evictions, 0);
  EXPECT_LE(runtime->memory_stats(gpu::device).peak_reserved.count, std::stoll(limited.size));
}

TEST(BudgetUse, ShapesChangeFromStepToStep) {
  expect_same([](auto*) {
    Net net;
    Bits bits;
    for (const std::int64_t rows : {256, 256, 256, 128, 256, 200, 64, 256, 256}) bits.push_back({net.step(rows)});
    net.add_to(bits);
    return bits;
  });
}

TEST(BudgetUse, EvaluationBetweenTrainingSteps) {
  expect_same([](auto*) {
    Net net;
    Bits bits;
    for (int i = 0; i < 6; ++i) {
      bits.push_back({net.step(256)});
      const NoGrad no_grad;
      for (int k = 0; k < 2; ++k) bits.push_back(net.forward(300, {}, false).to_vector<float>());
    }
    net.add_to(bits);
    return bits;
  });
}

TEST(BudgetUse, TwoModelsInOneBudget) {
  expect_same(
      [](auto*) {
        Net generator, critic(0.02);
        Bits bits;
        for (int i = 0; i < 5; ++i) {
          bits.push_back({critic.step(256)});
          const Tensor both = generator.forward(256) + critic.forward(128);
          both.backward();
          generator.update();
          critic.zero_grad();
          bits.push_back(both.to_vector<float>());
        }
        generator.add_to(bits);
        critic.add_to(bits);
        return bits;
      },
      0.7);
}

TEST(BudgetUse, AnExceptionOfTheProgramInTheMiddleOfAStep) {
  expect_same([](auto*) {
    Net net;
    Bits bits;
    for (int i = 0; i < 7; ++i) {
      const int stops_at = i % 2 == 1 ? i : -1;
      try {
        const Tensor loss = net.forward(256, [&](int layer) {
          if (layer == stops_at) throw std::runtime_error("the program's own");
        });
        loss.backward();
        net.update();
        bits.push_back(loss.to_vector<float>());
      } catch (const std::runtime_error&) {
        net.zero_grad();
      }
    }
    net.add_to(bits);
    return bits;
  });
}

TEST(BudgetUse, IterationsThatEndAnywhere) {
  expect_same([](std::optional<MemoryBudget>* budget) {
    Net net;
    Bits bits;
    for (int i = 0; i < 6; ++i) {
      const Tensor loss = net.forward(256, [&](int layer) {
        if (budget != nullptr && layer == i) (*budget)->next_iteration();
      });
      if (budget != nullptr && i % 2 == 0) (*budget)->next_iteration();
      loss.backward();
      net.update();
      bits.push_back(loss.to_vector<float>());
    }
    net.add_to(bits);
    return bits;
  });
}

// In forward, and between forward and backward; and again.
TEST(BudgetUse, ABudgetThatEndsAndBeginsInTheMiddleOfAStep) {
  expect_same([](std::optional<MemoryBudget>* budget) {
    const Bytes size = budget != nullptr ? (*budget)->stats().budget : Bytes{};
    Net net;
    Bits bits;
    for (int i = 0; i < 6; ++i) {
      const Tensor loss = net.forward(256, [&](int layer) {
        if (budget != nullptr && layer == i) budget->reset();
      });
      if (budget != nullptr) budget->reset();
      loss.backward();
      net.update();
      bits.push_back(loss.to_vector<float>());
      if (budget != nullptr) budget->emplace(MemoryBudgetOptions{.size = std::to_string(size.count * 4)});
    }
    net.add_to(bits);
    if (budget != nullptr) budget->reset();
    return bits;
  });
}

TEST(BudgetUse, ThreadsThatComputeAtTheSameTime) {
  const auto work = [](const std::shared_ptr<Runtime>& runtime, int number) {
    const CurrentCore current(runtime->core());
    std::vector<Tensor> tensors;
    for (int i = 0; i < 48; ++i) tensors.push_back(add(full({kMiB.count / 16}, number), i));
    std::vector<float> bits;
    for (int round = 0; round < 3; ++round)
      for (const Tensor& tensor : tensors) bits.push_back(mul(tensor, 2).to_vector<float>()[7]);
    return bits;
  };
  Backend backend = sim_backend();
  const auto runtime = std::make_shared<Runtime>(backend.options);
  for (const EvictionMethods methods : {EvictionMethods::recompute, EvictionMethods::swap, EvictionMethods::both}) {
    MemoryBudget budget(*runtime, {.size = "8MiB", .methods = methods});
    std::vector<std::thread> threads;
    Bits bits(4);
    for (int t = 0; t < 4; ++t) threads.emplace_back([&, t] { bits[static_cast<std::size_t>(t)] = work(runtime, t); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(budget.stats().evictions, 0);
    EXPECT_LE(runtime->memory_stats(gpu::device).peak_reserved, kMiB * 8);
    for (int t = 0; t < 4; ++t)
      for (int i = 0; i < 144; ++i)
        ASSERT_EQ(bits[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)], 2 * (t + i % 48)) << t << ' ' << i;
  }
}

TEST(BudgetUse, TensorsOutliveBudgetAndRuntime) {
  std::vector<Tensor> tensors;
  {
    const Runtime runtime(sim_backend().options);
    MemoryBudget budget("4MiB");
    for (int i = 0; i < 12; ++i) tensors.push_back(add(full({kMiB.count / 4}, i), 1));
  }
  for (int i = 0; i < 12; ++i) EXPECT_EQ(tensors[static_cast<std::size_t>(i)].to_vector<float>()[3], i + 1);
}

TEST(BudgetUse, ABudgetOutlivesItsRuntime) {
  std::optional<Runtime> runtime(sim_backend().options);
  MemoryBudget budget("4MiB");
  std::vector<Tensor> tensors;
  for (int i = 0; i < 8; ++i) tensors.push_back(add(full({kMiB.count / 4}, i), 1));
  runtime.reset();
  for (int i = 0; i < 8; ++i) EXPECT_EQ(tensors[static_cast<std::size_t>(i)].to_vector<float>()[3], i + 1);
}

TEST(BudgetUse, TextsThatAreNoBudget) {
  CheckedRuntime runtime{sim_backend()};
  for (const char* text : {"0%", "120%", "-5%", "nan%", "inf%", "%", "1e-9%", "5 GiBB", "GiB", "0 GiB", "1e99GiB", " ",
                           "80 percent", "5GiB5"})
    EXPECT_THROW(MemoryBudget{std::string_view(text)}, InvalidArgument) << '"' << text << '"';
  const std::string message = message_of<InvalidArgument>([] { MemoryBudget("120%"); });
  EXPECT_THAT(message, HasSubstr("'120%'"));
  EXPECT_THAT(message, HasSubstr("1% to 100%"));
}

// One that holds nothing is an error when something is asked for, and leaves the runtime usable.
TEST(BudgetUse, BudgetsOfAFewBytes) {
  CheckedRuntime runtime{sim_backend()};
  for (const std::int64_t bytes : {1, 511, 512, 4096, 1 << 20}) {
    std::string message;
    try {
      MemoryBudget budget(Bytes{bytes});
      const Tensor large = zeros({1 << 20});
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("budget")) << bytes;
    EXPECT_EQ(add(ones({4}), 1).to_vector<float>()[0], 2) << bytes;
  }
}

TEST(BudgetUse, LessThanIsInUseAlready) {
  CheckedRuntime runtime{sim_backend()};
  const Tensor before = full({kMiB.count}, 3);
  const std::string message = message_of<OutOfMemory>([] { MemoryBudget("2MiB"); });
  EXPECT_THAT(message, HasSubstr("budget"));
  EXPECT_EQ(before.to_vector<float>()[9], 3);
  const MemoryBudget enough("64MiB");
}

TEST(BudgetUse, TheFileIsNobodyElses) {
  CheckedRuntime runtime{sim_backend()};
  const std::filesystem::path folder = ::testing::TempDir();
  const std::filesystem::path mine = folder / "budget_use_precious";
  std::ofstream(mine) << "precious";
  MemoryBudgetOptions options{.size = "4MiB", .file = mine.string()};
  EXPECT_THAT(message_of<InvalidArgument>([&] { MemoryBudget budget(options); }), HasSubstr("exists"));
  std::string text;
  std::ifstream(mine) >> text;
  EXPECT_EQ(text, "precious");
  std::filesystem::remove(mine);
  options.file = folder.string();
  EXPECT_THROW(MemoryBudget{options}, InvalidArgument);
  options.file = (folder / "no" / "such" / "folder").string();
  EXPECT_THROW(MemoryBudget{options}, InvalidArgument);
  // Nothing of them is left, not even the budget.
  const MemoryBudget budget("4MiB");
}

TEST(BudgetUse, PlansThatAreNone) {
  CheckedRuntime runtime{sim_backend()};
  MemoryBudget budget("16MiB");
  for (const char* text :
       {"", "{}", "\"ferry_plan\"", "{\"ferry_plan\": 1}", "{\"ferry_plan\": \"x\", \"steps\": [1]}"}) {
    try {
      budget.load_plan(text);
    } catch (const ParseError&) {
    }
  }
  Net net;
  for (int i = 0; i < 4; ++i) EXPECT_GT(net.step(64), 0);
}

}  // namespace
}  // namespace ferry::test
