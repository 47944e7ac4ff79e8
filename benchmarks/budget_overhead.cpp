// What a memory budget costs that never binds: host time an op, and of a ResNet-18 step, with a budget and without, in
// turns. Host time is the thread's CPU time; a line's figures are medians over the rounds. Two figures have a bar: what
// an op costs, and which share of a ResNet-18 step that the CPU computes the calls' cost is.
//
//   build/release/bin/bench_budget_overhead [rounds]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/ferry.h>
#include <ferry/models.h>
#include <ferry/swap.h>

namespace {

using namespace ferry;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// A runtime with or without a budget of more than anything here needs, and a piece of work.
struct Side {
  const char* name;
  std::optional<EvictionMethods> methods;  // empty: no budget
};
constexpr std::array kSides = {Side{"none", std::nullopt}, Side{"swap", EvictionMethods::swap},
                               Side{"both", EvictionMethods::both}};

class Workplace {
 public:
  explicit Workplace(const Side& side, bool values)
      : runtime_({.device = "sim:rtx2080ti", .device_memory = kGiB * 4, .values = values}) {
    if (side.methods) budget_.emplace(runtime_, MemoryBudgetOptions{.size = "2GiB", .methods = *side.methods});
  }
  void next_iteration() {
    if (budget_) budget_->next_iteration();
  }

 private:
  Runtime runtime_;
  std::optional<MemoryBudget> budget_;
};

constexpr double kMostAnOp = 150;     // ns
constexpr double kMostOfAStep = 3.0;  // %

// With both methods.
struct Cost {
  double without;  // a piece without a budget
  double more;     // a piece takes with one
};

using Work = std::function<void()>;
using MakeWork = std::function<Work(Workplace&)>;

// Each side's work `rounds` times in turns; prints them as `unit`s of `scale` a piece.
Cost compare(const char* title, int rounds, bool values, double pieces, const char* unit, double scale,
             const MakeWork& make) {
  std::array<std::vector<double>, kSides.size()> times;
  for (int round = 0; round <= rounds; ++round) {
    for (std::size_t side = 0; side < kSides.size(); ++side) {
      Workplace workplace(kSides[side], values);
      const Work work = make(workplace);
      for (int i = 0; i < 4; ++i) work();
      const double begin = cpu_seconds();
      work();
      if (round > 0) times[side].push_back((cpu_seconds() - begin) / pieces * scale);
    }
  }
  Cost cost{.without = median(times[0]), .more = 0};
  for (std::size_t side = 0; side < kSides.size(); ++side) {
    std::vector<double> ratios, differences;
    for (std::size_t i = 0; i < times[side].size(); ++i) {
      ratios.push_back(times[side][i] / times[0][i]);
      differences.push_back(times[side][i] - times[0][i]);
    }
    fmt::print("{:<34} {:<5} {:9.1f} {}  +{:.1f}  x{:.3f}\n", title, kSides[side].name, median(times[side]), unit,
               median(differences), median(ratios));
    cost.more = median(differences);
  }
  return cost;
}

void print_bar(const char* title, const std::string& figure, double value, double bar, const char* unit) {
  fmt::print("{:<34} {}; bar {} {}: {}\n", title, figure, bar, unit, value <= bar ? "held" : "MISSED");
}

// 50 adds that depend on each other, all kept, and let go.
Work adds(Workplace& workplace) {
  const Tensor x = zeros({64, 64}), w = zeros({64, 64});
  return [=, &workplace] {
    for (int k = 0; k < 400; ++k) {
      std::vector<Tensor> kept{x};
      for (int i = 0; i < 50; ++i) kept.push_back(add(kept.back(), w));
      workplace.next_iteration();
    }
  };
}

MakeWork resnet18_steps(std::int64_t batch, int steps) {
  return [=](Workplace&) -> Work {
    const auto model = models::make("resnet18");
    const auto optimizer = std::make_shared<optim::Sgd>(*model, optim::SgdOptions{.rate = 0.1});
    const models::Batch data = model->random_batch(batch, 0);
    return [=] {
      for (int i = 0; i < steps; ++i) {
        optimizer->zero_grad();
        model->loss(data).backward();
        optimizer->step();
      }
    };
  };
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rounds);
    if (error != std::errc{} || end != text.data() + text.size() || rounds < 1) {
      fmt::print(stderr, "bench_budget_overhead: '{}' is no number of rounds\n", text);
      return 2;
    }
  }
  const Cost op = compare("add, timing only", rounds, false, 400 * 50, "ns", 1e9, adds);
  const Cost calls = compare("resnet18 step, timing only", rounds, false, 20, "us", 1e6, resnet18_steps(16, 20));
  const Cost step =
      compare("resnet18 step, values, batch 1", std::min(rounds, 5), true, 3, "ms", 1e3, resnet18_steps(1, 3));
  print_bar("an op", fmt::format("+{:.1f} ns", op.more), op.more, kMostAnOp, "ns");
  // The difference of two such steps is less than the noise of either; their calls are those of the steps without
  // values.
  const double share = calls.more / (step.without * 1e3) * 100;
  print_bar("share of a step on the CPU",
            fmt::format("{:.1f} us of {:.1f} ms, {:.3f} %", calls.more, step.without, share), share, kMostOfAStep, "%");
}
