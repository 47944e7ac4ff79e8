#include <ferry/no_grad.h>

namespace ferry {
namespace {

thread_local bool enabled = true;

}  // namespace

NoGrad::NoGrad() : previous_(enabled) { enabled = false; }
NoGrad::~NoGrad() { enabled = previous_; }

bool grad_enabled() { return enabled; }

}  // namespace ferry
