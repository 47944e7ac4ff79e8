// What it costs a memory budget to choose who leaves, among 100,000 live tensors: host time a decision, by policy,
// while a program runs whose every op needs the room of another. The thread's CPU time, without values on a simulated
// GPU.
//
//   build/release/bin/bench_budget_decisions [live tensors]
#include <fmt/format.h>
#include <time.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/ferry.h>
#include <ferry/swap.h>

namespace {

using namespace ferry;

constexpr double kMost = 20;  // us a decision
constexpr std::array kPolicies = {"dtr", "dtr_local", "msps", "lru", "largest", "random", "hybrid"};
constexpr int kShortOps = 4000;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Tensors of a program: all of one size, or of sixteen.
struct Sizes {
  const char* name;
  std::int64_t kinds;
};
constexpr Sizes kOneSize{"one size", 1}, kSixteenSizes{"1 to 16 KiB", 16};

struct Figures {
  double engine = 0;   // us a decision, as the budget counts it
  double op = 0;       // us that an op which needs room takes, all told
  double free_op = 0;  // us that one takes while there is room
  std::int64_t decisions = 0, live = 0;
};

// Results that all live, each of a random earlier one of its size.
class Program {
 public:
  explicit Program(const Sizes& sizes) {
    for (std::int64_t kind = 0; kind < sizes.kinds; ++kind) {
      kept_.emplace_back().push_back(zeros({16 * (kind + 1), 16}));
      kept_.back().reserve(8192);
    }
  }
  void run_op() {
    std::vector<Tensor>& same = kept_[random_() % kept_.size()];
    same.push_back(add(same[random_() % std::min<std::size_t>(same.size(), 64)], 1.0));
  }

 private:
  std::mt19937_64 random_{1};
  std::vector<std::vector<Tensor>> kept_;  // by size
};

Figures measure(const std::string& policy, EvictionMethods methods, const Sizes& sizes, std::int64_t live) {
  const std::int64_t kib = sizes.kinds == 1 ? live : live * (sizes.kinds + 1) / 2;
  Runtime runtime({.device = "sim:rtx2080ti", .values = false});
  MemoryBudget budget(runtime, {.size = std::to_string(kib * 1024 / (2 * kMiB.count) * (2 * kMiB.count)),
                                .methods = methods,
                                .policy = policy,
                                .plans = false});
  Program program(sizes);
  Figures figures;
  const double begin = cpu_seconds();
  std::int64_t ops = 0;
  while (budget.stats().decisions == 0) program.run_op(), ++ops;
  figures.free_op = (cpu_seconds() - begin) * 1e6 / static_cast<double>(ops);
  const MemoryBudgetStats before = budget.stats();
  figures.live = before.tracked_storages;
  const double short_from = cpu_seconds();
  for (int i = 0; i < kShortOps; ++i) program.run_op();
  figures.op = (cpu_seconds() - short_from) * 1e6 / kShortOps;
  const MemoryBudgetStats after = budget.stats();
  figures.decisions = after.decisions - before.decisions;
  const auto time = std::chrono::duration<double, std::micro>(after.decision_time - before.decision_time);
  figures.engine = time.count() / static_cast<double>(std::max<std::int64_t>(figures.decisions, 1));
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t live = 100'000;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), live);
    if (error != std::errc{} || end != text.data() + text.size() || live < 1000) {
      fmt::print(stderr, "bench_budget_decisions: '{}' is no number of tensors; give 1000 or more\n", text);
      return 2;
    }
  }
  fmt::print("{:<10} {:<10} {:<12} {:>9} {:>10} {:>14} {:>14} {:>14}\n", "policy", "methods", "sizes", "live",
             "decisions", "us a decision", "us a short op", "us a free op");
  double worst = 0;
  for (const Sizes& sizes : {kOneSize, kSixteenSizes}) {
    for (const std::string policy : kPolicies) {
      for (const auto& [name, methods] :
           {std::pair{"recompute", EvictionMethods::recompute}, std::pair{"swap", EvictionMethods::swap},
            std::pair{"both", EvictionMethods::both}}) {
        const Figures it = measure(policy, methods, sizes, live);
        fmt::print("{:<10} {:<10} {:<12} {:>9} {:>10} {:>14.2f} {:>14.2f} {:>14.2f}\n", policy, name, sizes.name,
                   it.live, it.decisions, it.engine, it.op, it.free_op);
        std::fflush(stdout);
        worst = std::max(worst, it.engine);
      }
    }
  }
  fmt::print("the most a decision takes: {:.2f} us; bar {} us: {}\n", worst, kMost, worst <= kMost ? "held" : "MISSED");
}
