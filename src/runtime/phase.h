// Which part of a training step the calling thread is in, for the trace.
#pragma once

#include "src/trace/trace.h"

namespace ferry {

trace::Phase current_phase();

class [[nodiscard]] PhaseScope {
 public:
  explicit PhaseScope(trace::Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  trace::Phase previous_;
};

}  // namespace ferry
