#include <ferry/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/base/check.h"

namespace ferry::optim {
namespace {

void require_steps(std::string_view schedule, std::int64_t steps) {
  FERRY_CHECK(steps > 0, InvalidArgument, "{}: {} steps are not positive", schedule, steps);
}

// From `a` at 0 to `b` at 1.
double line(double a, double b, double part) { return a + (b - a) * part; }
double half_cosine(double a, double b, double part) {
  return b + (a - b) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

Schedule step_decay(std::int64_t every, double factor) {
  require_steps("step_decay", every);
  return [=](std::int64_t step) { return std::pow(factor, static_cast<double>(step / every)); };
}

Schedule multi_step(std::vector<std::int64_t> milestones, double factor) {
  FERRY_CHECK(std::ranges::is_sorted(milestones), InvalidArgument, "multi_step: the milestones do not ascend");
  return [milestones = std::move(milestones), factor](std::int64_t step) {
    return std::pow(factor, static_cast<double>(std::ranges::upper_bound(milestones, step) - milestones.begin()));
  };
}

Schedule exponential(double factor) {
  return [=](std::int64_t step) { return std::pow(factor, static_cast<double>(step)); };
}

Schedule cosine(std::int64_t steps, double lowest) {
  require_steps("cosine", steps);
  return [=](std::int64_t step) {
    return half_cosine(1, lowest, static_cast<double>(std::min(step, steps)) / static_cast<double>(steps));
  };
}

Schedule linear_ramp(std::int64_t steps, double first, double last) {
  require_steps("linear_ramp", steps);
  return [=](std::int64_t step) {
    return line(first, last, static_cast<double>(std::min(step, steps)) / static_cast<double>(steps));
  };
}

Schedule warm_up(std::int64_t steps, Schedule after, double first) {
  require_steps("warm_up", steps);
  return [=, after = std::move(after)](std::int64_t step) {
    if (step >= steps) return after(step - steps);
    return line(first, 1, static_cast<double>(step) / static_cast<double>(steps));
  };
}

Schedule one_cycle(OneCycleOptions options) {
  require_steps("one_cycle", options.steps);
  FERRY_CHECK(options.rising >= 0 && options.rising <= 1 && options.start_divisor > 0 && options.final_divisor > 0,
              InvalidArgument, "one_cycle: rising {} must be in [0, 1], divisors {} and {} positive", options.rising,
              options.start_divisor, options.final_divisor);
  const auto steps = static_cast<double>(options.steps);
  const double peak = options.rising * steps - 1, end = steps - 1;
  const double start = 1 / options.start_divisor, last = start / options.final_divisor;
  const auto between = options.linear ? line : half_cosine;
  return [=](std::int64_t step) {
    const double at = std::min(static_cast<double>(step), end);
    if (at <= peak) return peak > 0 ? between(start, 1, at / peak) : 1;
    return between(1, last, end > std::max(peak, 0.0) ? (at - std::max(peak, 0.0)) / (end - std::max(peak, 0.0)) : 1);
  };
}

RateSchedule::RateSchedule(Optimizer& optimizer, Schedule schedule)
    : optimizer_(optimizer), schedule_(std::move(schedule)) {
  for (std::size_t group = 0; group < optimizer.group_count(); ++group) rates_.push_back(optimizer.rate(group));
  set_position(0);
}

void RateSchedule::set_position(std::int64_t step) {
  position_ = step;
  for (std::size_t group = 0; group < rates_.size(); ++group) {
    optimizer_.set_rate(group, rates_[group] * schedule_(step));
  }
}

}  // namespace ferry::optim
