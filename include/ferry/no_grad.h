// NoGrad: ops inside the scope build no graph. Per thread, nests, restored on exceptions.
#pragma once

namespace ferry {

class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  unsigned char previous_;  // the mode before
};

bool grad_enabled();

}  // namespace ferry
