// One element of stochastic gradient descent with momentum.
#pragma once

#include "src/kernels/functor.h"

namespace ferry::kernels {

template <class C>
struct Sgd {
  C rate, momentum, undampened, weight_decay;  // undampened: 1 - dampening
  bool nesterov, first_step;

  // Without velocity.
  FERRY_FUNCTOR C operator()(C parameter, C gradient) const {
    return parameter - rate * (gradient + weight_decay * parameter);
  }

  // With velocity, which is updated.
  FERRY_FUNCTOR C operator()(C parameter, C gradient, C& velocity) const {
    const C g = gradient + weight_decay * parameter;
    velocity = first_step ? g : momentum * velocity + undampened * g;
    return parameter - rate * (nesterov ? g + momentum * velocity : velocity);
  }
};

}  // namespace ferry::kernels
