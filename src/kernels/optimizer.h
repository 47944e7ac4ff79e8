// One element of an optimizer's step: the new parameter from the old one, its gradient and its state, which is updated.
// The formulas are PyTorch's (torch/optim/sgd.py, adam.py, adamw.py, adagrad.py).
#pragma once

#include "src/kernels/math.h"

namespace ferry::kernels {

// Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning".
template <class C>
struct Sgd {
  C rate, momentum, undampened, weight_decay;  // undampened: 1 - dampening
  bool nesterov, first_step;

  FERRY_FUNCTOR C operator()(C parameter, C gradient) const {
    return parameter - rate * (gradient + weight_decay * parameter);
  }
  FERRY_FUNCTOR C operator()(C parameter, C gradient, C& velocity) const {
    const C g = gradient + weight_decay * parameter;
    velocity = first_step ? g : momentum * velocity + undampened * g;
    return parameter - rate * (nesterov ? g + momentum * velocity : velocity);
  }
};

// Kingma & Ba 2015, "Adam: A Method for Stochastic Optimization"; with `shrink` Loshchilov & Hutter 2019, "Decoupled
// Weight Decay Regularization"; with `largest` Reddi et al. 2018, "On the Convergence of Adam and Beyond".
template <class C>
struct Adam {
  C rate;                        // over the first moment's bias correction, 1 - beta1^t
  C beta1, beta2, rest1, rest2;  // rest: 1 - beta
  C root_correction;             // 1 / sqrt(1 - beta2^t)
  C epsilon;
  C weight_decay;  // added to the gradient
  C shrink;        // of the parameter, 1 - rate * decay

  FERRY_FUNCTOR C operator()(C parameter, C gradient, C& mean, C& square) const {
    moments(parameter, gradient, mean, square);
    return moved(parameter, mean, square);
  }
  FERRY_FUNCTOR C operator()(C parameter, C gradient, C& mean, C& square, C& largest) const {
    moments(parameter, gradient, mean, square);
    largest = largest < square ? square : largest;
    return moved(parameter, mean, largest);
  }

 private:
  FERRY_FUNCTOR void moments(C parameter, C gradient, C& mean, C& square) const {
    const C g = gradient + weight_decay * parameter;
    mean = beta1 * mean + rest1 * g;
    square = beta2 * square + rest2 * (g * g);
  }
  FERRY_FUNCTOR C moved(C parameter, C mean, C square) const {
    return parameter * shrink - rate * (mean / (kernels::sqrt(square) * root_correction + epsilon));
  }
};

// Duchi et al. 2011, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization".
template <class C>
struct Adagrad {
  C rate;  // decayed: rate / (1 + (t - 1) * rate_decay)
  C weight_decay, epsilon;

  FERRY_FUNCTOR C operator()(C parameter, C gradient, C& sum) const {
    const C g = gradient + weight_decay * parameter;
    sum = sum + g * g;
    return parameter - rate * (g / (kernels::sqrt(sum) + epsilon));
  }
};

}  // namespace ferry::kernels
