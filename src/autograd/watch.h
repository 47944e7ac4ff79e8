// Finds out whether ops would build a graph, without building one.
#pragma once

#include <vector>

#include "src/ops/gradient.h"
#include "src/ops/op_schema.h"
#include "src/tensor/grad_mode.h"

namespace ferry::autograd {

// In its scope ops of the calling thread build no graph; what would have been in it is noted.
class [[nodiscard]] GradWatch {
 public:
  GradWatch();
  ~GradWatch();
  GradWatch(const GradWatch&) = delete;
  GradWatch& operator=(const GradWatch&) = delete;

  // Each tensor that requires grad and that an op took, once, with the version it had.
  std::vector<ops::SavedTensor>& seen() { return seen_; }

  // Called by ops. Requires: a watch is on.
  static void note(ops::TensorPointers inputs);

 private:
  GradModeScope mode_{GradMode::watched};
  GradWatch* outer_;
  std::vector<ops::SavedTensor> seen_;
};

}  // namespace ferry::autograd
