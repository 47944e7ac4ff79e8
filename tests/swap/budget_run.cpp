#include "tests/swap/budget_run.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include <unistd.h>

namespace ferry::test {
namespace {

constexpr Bytes kCapacity = kMiB * 64;

// Ends the process when nobody has called `alive` for a minute: a step that never ends names its program.
class Watchdog {
 public:
  explicit Watchdog(std::string what)
      : what_(std::move(what)), thread_([this](std::stop_token stop) { watch(stop); }) {}
  ~Watchdog() {
    thread_.request_stop();
    changed_.notify_all();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void alive() {
    const std::lock_guard lock(mutex_);
    ++beats_;
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};

  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const std::int64_t before = beats_;
      if (changed_.wait_for(lock, stop, kPatience, [] { return false; }) || stop.stop_requested()) return;
      if (beats_ != before) continue;
      fmt::print(stderr, "no block ended for {} s: {}\n", kPatience.count(), what_);
      std::fflush(stderr);
      std::abort();
    }
  }

  const std::string what_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::int64_t beats_ = 0;
  std::jthread thread_;
};

MemoryBudgetOptions options_of(const BudgetSetting& setting) {
  MemoryBudgetOptions options{.size = std::to_string(setting.size->count)};
  options.policy = setting.policy;
  options.methods = setting.methods;
  options.plans = setting.plans;
  options.sqrt_sampling = setting.sqrt_sampling;
  if (setting.file_tier) {
    options.host_limit = kKiB * 256;
    options.file = std::filesystem::temp_directory_path() / fmt::format("ferry_budget_{}.swap", ::getpid());
  }
  return options;
}

Backend backend_of(const BudgetSetting& setting) {
  Backend backend = sim_backend();
  backend.options.device_memory = kCapacity;
  backend.options.order = setting.order;
  return backend;
}

// The steps of a program under a budget that may have none.
void run_steps(const ProgramSpec& spec, Runtime& runtime, std::optional<MemoryBudget>& budget,
               const BudgetSetting& setting, Watchdog& watchdog, BudgetOutcome& outcome) {
  const auto within = [&] {
    watchdog.alive();
    if (!setting.size) return;
    const MemoryStats stats = runtime.memory_stats(gpu::device);
    if (stats.peak_reserved > *setting.size) {
      ADD_FAILURE() << "reserved " << stats.peak_reserved.count << " bytes of a budget of " << setting.size->count;
    }
  };
  TrainingProgram program(spec, {.after_block = within, .before_update = {}, .after_update = {}});
  for (int step = 0; step < spec.steps; ++step) {
    program.step(step);
    if (budget && program.steps_by_hand()) budget->next_iteration();
    ++outcome.steps;
    outcome.results = program.results();
  }
  runtime.synchronize();
  within();
}

}  // namespace

std::string to_string(const BudgetSetting& setting) {
  if (!setting.size) return "without a budget";
  constexpr std::array<std::string_view, 3> kMethods = {"recompute", "swap", "both"};
  return fmt::format("budget {} bytes, policy {}, methods {}{}{}{}{}", setting.size->count, setting.policy,
                     kMethods[static_cast<std::size_t>(setting.methods)], setting.plans ? "" : ", no plans",
                     setting.sqrt_sampling ? ", sampled" : "", setting.file_tier ? ", file tier" : "",
                     setting.order.adversarial ? fmt::format(", order {}", setting.order.seed) : "");
}

BudgetOutcome run_under_budget(const ProgramSpec& spec, const BudgetSetting& setting) {
  BudgetOutcome outcome;
  Watchdog watchdog(to_string(setting) + ", " + to_string(spec));
  CheckedRuntime runtime(backend_of(setting));
  try {
    std::optional<MemoryBudget> budget;
    if (setting.size) budget.emplace(*runtime, options_of(setting));
    try {
      run_steps(spec, *runtime, budget, setting, watchdog, outcome);
    } catch (const OutOfMemory& error) {
      outcome.shortage = error.what();
    }
    if (budget) outcome.stats = budget->stats();
  } catch (const OutOfMemory& error) {
    outcome.shortage = error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    outcome.shortage = "another error";
  }
  outcome.peak = runtime->memory_stats(gpu::device).peak_allocated;
  return outcome;
}

ProgramSpec shrunk(ProgramSpec spec, const std::function<bool(const ProgramSpec&)>& fails, int trials) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (ProgramSpec& candidate : simplified(spec)) {
      if (--trials < 0) return spec;
      if (!fails(candidate)) continue;
      spec = std::move(candidate);
      smaller = true;
      break;
    }
  }
  return spec;
}

std::optional<std::uint64_t> seed_from_environment() {
  const char* text = std::getenv("FERRY_TEST_SEED");
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

bool full_test() {
  const char* text = std::getenv("FERRY_TEST_FULL");
  return text != nullptr && std::string_view(text) == "1";
}

bool brief_test() { return std::getenv("FERRY_TEST_BRIEF") != nullptr; }

}  // namespace ferry::test
