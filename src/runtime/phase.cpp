#include "src/runtime/phase.h"

#include <utility>

namespace ferry {
namespace {

thread_local trace::Phase phase_now = trace::Phase::forward;

}  // namespace

trace::Phase current_phase() { return phase_now; }

PhaseScope::PhaseScope(trace::Phase phase) : previous_(std::exchange(phase_now, phase)) {}
PhaseScope::~PhaseScope() { phase_now = previous_; }

}  // namespace ferry
