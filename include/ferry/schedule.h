// Learning-rate schedules: the factor that an optimizer's rates are multiplied by at each step, and what applies it.
//
//   RateSchedule schedule(optimizer, warm_up(500, cosine(10'000)));
//   for (…) { optimizer.step(); schedule.step(); }
//
// A schedule is a function of the step from 0 on, so any function is one:
//   RateSchedule schedule(optimizer, [](std::int64_t step) { return 1 / std::sqrt(1.0 + step); });
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ferry/optim.h>

namespace ferry::optim {

using Schedule = std::function<double(std::int64_t step)>;

// factor^⌊step / every⌋ (StepLR).
Schedule step_decay(std::int64_t every, double factor = 0.1);
// factor^(milestones reached); milestones ascend (MultiStepLR).
Schedule multi_step(std::vector<std::int64_t> milestones, double factor = 0.1);
// factor^step (ExponentialLR).
Schedule exponential(double factor);
// From 1 to `lowest` along half a cosine in `steps`, then `lowest` (CosineAnnealingLR; Loshchilov & Hutter 2017).
Schedule cosine(std::int64_t steps, double lowest = 0);
// From `first` to `last` in equal steps, then `last` (LinearLR).
Schedule linear_ramp(std::int64_t steps, double first, double last = 1);
// From `first` to 1 in equal steps, then `after`, whose steps begin there.
Schedule warm_up(std::int64_t steps, Schedule after, double first = 0);

struct OneCycleOptions {
  std::int64_t steps = 0;      // of the whole cycle
  double rising = 0.3;         // part of the steps in which the rate rises
  double start_divisor = 25;   // the cycle begins at 1 / start_divisor
  double final_divisor = 1e4;  // and ends at 1 / (start_divisor final_divisor)
  bool linear = false;         // else along half cosines
};
// The optimizer's rate is the peak (OneCycleLR; Smith & Topin 2018, "Super-Convergence").
Schedule one_cycle(OneCycleOptions options);

// Each of these throws InvalidArgument for a number of steps that is not positive.

class RateSchedule {
 public:
  // Sets the rates of step 0. Requires: the optimizer outlives this. What its rates are now is multiplied.
  RateSchedule(Optimizer& optimizer, Schedule schedule);

  // Goes on to the next step's rates. Call after each Optimizer::step.
  void step() { set_position(position_ + 1); }
  // For checkpoints.
  std::int64_t position() const { return position_; }
  void set_position(std::int64_t step);

 private:
  Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> rates_;  // of each group at a factor of 1
  std::int64_t position_ = 0;
};

}  // namespace ferry::optim
