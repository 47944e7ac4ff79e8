#include <ferry/no_grad.h>

#include <utility>

#include "src/tensor/grad_mode.h"

namespace ferry {
namespace {

thread_local GradMode mode_now = GradMode::on;

}  // namespace

GradMode grad_mode() { return mode_now; }
GradModeScope::GradModeScope(GradMode mode) : previous_(std::exchange(mode_now, mode)) {}
GradModeScope::~GradModeScope() { mode_now = previous_; }

NoGrad::NoGrad() : previous_(static_cast<unsigned char>(std::exchange(mode_now, GradMode::off))) {}
NoGrad::~NoGrad() { mode_now = static_cast<GradMode>(previous_); }

bool grad_enabled() { return mode_now == GradMode::on; }

}  // namespace ferry
