// What ops of the calling thread do about the graph.
#pragma once

#include <cstdint>

namespace ferry {

enum class GradMode : std::uint8_t {
  on,       // they build it
  off,      // NoGrad
  watched,  // they build none, but tell autograd which tensors would begin one (src/autograd/checkpoint.cpp)
};

GradMode grad_mode();

class [[nodiscard]] GradModeScope {
 public:
  explicit GradModeScope(GradMode mode);
  ~GradModeScope();
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  GradMode previous_;
};

}  // namespace ferry
