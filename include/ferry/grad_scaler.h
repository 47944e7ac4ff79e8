// GradScaler: training in f16 without gradients that vanish. The loss is scaled up, so that small gradients stay above
// f16's smallest number; gradients are scaled back before the step, which is skipped where one is not finite, and the
// scale follows (Micikevicius et al. 2018, "Mixed Precision Training"; defaults are PyTorch's).
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);                       // only to look at gradients or clip them
//   optim::clip_grad_norm(optimizer.parameters(), 1);
//   scaler.step(optimizer);
//   scaler.update();
//
// Gradients accumulate over micro-batches under one scale: call scale(loss * (1.0 / micro_batches)).backward() for
// each, then step and update once. The gradients are then those of the whole batch.
//
// bf16 has f32's range and needs none. In timing-only mode no overflow is seen.
#pragma once

#include <cstdint>
#include <map>
#include <source_location>
#include <vector>

#include <ferry/optim.h>

namespace ferry {

struct GradScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;     // after `growth_interval` steps without an overflow
  double backoff_factor = 0.5;  // after one with
  std::int64_t growth_interval = 2000;
  bool enabled = true;  // false: everything passes unchanged
};

class GradScaler {
 public:
  // Throws: InvalidArgument unless initial_scale > 0, growth > 1, 0 < backoff < 1 and interval > 0.
  explicit GradScaler(GradScalerOptions options = {});

  // loss · scale, f32 for a 16-bit loss.
  Tensor scale(const Tensor& loss, std::source_location where = std::source_location::current()) const;
  // Divides the gradients of the optimizer's parameters by the scale, in place, and looks for one that is not finite:
  // one op call a device. Throws: InvalidArgument when called twice between updates.
  void unscale_(optim::Optimizer& optimizer, std::source_location where = std::source_location::current());
  // The optimizer's step, after unscale_ if that was not called, unless a gradient is not finite. Tells whether the
  // step was taken. Throws: InvalidArgument when called twice between updates; what the step throws.
  bool step(optim::Optimizer& optimizer, std::source_location where = std::source_location::current());
  // Changes the scale by what the steps since the last update found. Call once after the steps.
  void update();

  double scale_factor() const { return options_.enabled ? scale_ : 1; }
  // "scale" and "good_steps", for checkpoints.
  std::vector<nn::NamedTensor> state() const;
  // Throws: InvalidArgument for missing entries.
  void set_state(const std::vector<nn::NamedTensor>& state);

 private:
  struct Seen {
    bool unscaled = false, overflowed = false, stepped = false;
  };
  GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;                   // without an overflow since the scale changed
  std::map<const optim::Optimizer*, Seen> seen_;  // since the last update
};

}  // namespace ferry
