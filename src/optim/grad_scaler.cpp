#include <ferry/grad_scaler.h>

#include <algorithm>
#include <cmath>

#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include "placement/placement.h"
#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/ops/optimizer.h"
#include "src/optim/gradients.h"
#include "src/runtime/phase.h"

namespace ferry {
namespace {

const Tensor& entry(const std::vector<nn::NamedTensor>& state, std::string_view name) {
  const auto found = std::ranges::find(state, name, &nn::NamedTensor::name);
  FERRY_CHECK(found != state.end(), InvalidArgument, "GradScaler: the state lacks '{}'", name);
  return found->tensor;
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options), scale_(options.initial_scale) {
  FERRY_CHECK(options.initial_scale > 0 && options.growth_factor > 1 && options.backoff_factor > 0 &&
                  options.backoff_factor < 1 && options.growth_interval > 0,
              InvalidArgument,
              "GradScaler: needs initial_scale {} > 0, growth_factor {} > 1, backoff_factor {} in (0, 1), "
              "growth_interval {} > 0",
              options.initial_scale, options.growth_factor, options.backoff_factor, options.growth_interval);
}

Tensor GradScaler::scale(const Tensor& loss, std::source_location where) const {
  if (!options_.enabled) return loss;
  return mul(size_of(loss.dtype()) == 2 ? loss.to(DType::f32, where) : loss, scale_, where);
}

void GradScaler::unscale_(optim::Optimizer& optimizer, std::source_location where) {
  if (!options_.enabled) return;
  Seen& seen = seen_[&optimizer];
  FERRY_CHECK(!seen.unscaled && !seen.stepped, InvalidArgument,
              "GradScaler: the gradients were scaled back already since the last update");
  const NoGrad no_grad;
  const PhaseScope phase(trace::Phase::optimizer);
  const auto gradients = optim::own_gradients(optimizer.parameters(), false, where);
  std::vector<Tensor> found;
  for (const auto& [device, tensors] : gradients) {
    const placement::InheritedPlacement here(device);
    const ops::RuntimeOf runtime(tensors[0]);
    found.push_back(zeros({1}, DType::f32, where));
  }
  seen.unscaled = true;
  std::size_t i = 0;
  for (const auto& [device, tensors] : gradients) ops::unscale_all(tensors, found[i++], 1 / scale_, where);
  for (const Tensor& flag : found) seen.overflowed = flag.item(where) != 0 || seen.overflowed;
}

bool GradScaler::step(optim::Optimizer& optimizer, std::source_location where) {
  if (options_.enabled) {
    FERRY_CHECK(!seen_[&optimizer].stepped, InvalidArgument,
                "GradScaler: step was called already since the last update");
    if (!seen_[&optimizer].unscaled) unscale_(optimizer, where);
    Seen& seen = seen_[&optimizer];
    if (!seen.overflowed) optimizer.step(where);
    seen.stepped = true;
    return !seen.overflowed;
  }
  optimizer.step(where);
  return true;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  const bool overflowed = std::ranges::any_of(seen_, [](const auto& each) { return each.second.overflowed; });
  seen_.clear();
  if (overflowed) {
    scale_ *= options_.backoff_factor;
    good_steps_ = 0;
  } else if (++good_steps_ == options_.growth_interval) {
    const double grown = scale_ * options_.growth_factor;
    if (std::isfinite(static_cast<float>(grown))) scale_ = grown;
    good_steps_ = 0;
  }
}

std::vector<nn::NamedTensor> GradScaler::state() const {
  return {{"scale", from_vector(std::vector<double>{scale_})},
          {"good_steps", from_vector(std::vector<std::int64_t>{good_steps_})}};
}

void GradScaler::set_state(const std::vector<nn::NamedTensor>& state) {
  const double scale = entry(state, "scale").item();
  good_steps_ = static_cast<std::int64_t>(entry(state, "good_steps").item());
  scale_ = scale;
  seen_.clear();
}

}  // namespace ferry
