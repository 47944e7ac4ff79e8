// Figures on the logs that the authors of DTR published; skipped where the files are not there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "swap/bound.h"
#include "swap/log_file.h"
#include "swap/replay.h"

namespace ferry::swap {
namespace {

struct Figures {
  double peak_mb, time_ms;
  double bound, bound_with_link;  // at half of the peak
  std::map<double, double> dtr;   // overhead by budget; 0: out of memory
};

const std::map<std::string, Figures> kFigures = {
    {"unet", {8416, 435.3, 1.053, 1.021, {{.9, 1.033}, {.7, 1.085}, {.5, 1.159}, {.3, 0}}}},
    {"resnet32", {10061, 291.9, 1.069, 1.050, {{.9, 1.013}, {.7, 1.046}, {.5, 1.107}, {.3, 1.179}}}},
    {"transformer", {9864, 276.3, 1.046, 1.031, {{.9, 1.009}, {.7, 1.031}, {.5, 1.058}, {.3, 1.123}}}},
};

class PublishedLog : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto path = std::filesystem::path(FERRY_PUBLISHED_LOGS) / (GetParam() + ".log.gz");
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    iteration_ = read_iteration(path.string());
    base_ = unconstrained(iteration_);
  }
  Bytes part(double x) const { return Bytes{static_cast<std::int64_t>(static_cast<double>(base_.peak.count) * x)}; }
  double overhead(Nanoseconds time) const {
    return static_cast<double>(time.count()) / static_cast<double>(base_.time.count());
  }
  const Figures& figures() const { return kFigures.at(GetParam()); }

  Iteration iteration_;
  Unconstrained base_;
};

TEST_P(PublishedLog, BaseIsTheSimulators) {
  EXPECT_NEAR(static_cast<double>(base_.peak.count) / 1e6, figures().peak_mb, 1);
  EXPECT_NEAR(static_cast<double>(base_.time.count()) / 1e6, figures().time_ms, 0.1);
  const Link link{.out_bytes_per_second = 12e9, .in_bytes_per_second = 12e9};
  EXPECT_NEAR(overhead(lower_bound(iteration_, part(.5), Methods::recompute, {}).time), figures().bound, 0.001);
  EXPECT_NEAR(overhead(lower_bound(iteration_, part(.5), Methods::both, link).time), figures().bound_with_link, 0.001);
}

TEST_P(PublishedLog, DtrComesOutAsPublished) {
  for (const auto& [budget, expected] : figures().dtr) {
    const Cost cost = replay(iteration_, {.budget = part(budget)});
    fmt::print("{} dtr at {}: {}\n", GetParam(), budget,
               cost.feasible ? fmt::format("{:.3f}", overhead(cost.time)) : cost.reason);
    EXPECT_EQ(cost.feasible, expected > 0) << budget;
    EXPECT_NEAR(cost.feasible ? overhead(cost.time) : 0, expected, 0.02) << budget;
  }
}

INSTANTIATE_TEST_SUITE_P(Logs, PublishedLog, ::testing::Values("unet", "resnet32", "transformer"),
                         [](const auto& log) { return log.param; });

}  // namespace
}  // namespace ferry::swap
