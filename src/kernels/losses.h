// Losses of one element.
#pragma once

#include "src/kernels/elementwise.h"
#include "src/kernels/math.h"

namespace ferry::kernels {

// ln(1 + x) for x in [0, 1], with the relative precision of a small x (Kahan's quotient).
template <class T>
FERRY_FUNCTOR T log_one_plus(T x) {
  const T sum = T(1) + x;
  const T added = sum - T(1);
  return added == T(0) ? x : kernels::log(sum) * (x / added);
}

// -(weight target ln σ(x) + (1 - target) ln σ(-x)); -ln σ(x) is ln(1 + e^-|x|) + max(-x, 0).
struct BinaryCrossEntropy {
  template <class T>
  FERRY_FUNCTOR T operator()(T x, T target, T weight) const {
    const T tail = log_one_plus(kernels::exp(x < T(0) ? x : -x));
    const T above = tail + (x < T(0) ? -x : T(0)), below = tail + (x < T(0) ? T(0) : x);
    return weight * target * above + (T(1) - target) * below;
  }
};

struct BinaryCrossEntropyBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dloss, T x, T target, T weight) const {
    const T e = kernels::exp(x < T(0) ? x : -x), whole = T(1) / (T(1) + e);
    const T above = (x < T(0) ? e : T(1)) * whole, below = (x < T(0) ? T(1) : e) * whole;  // σ(x) and σ(-x)
    return dloss * ((T(1) - target) * above - weight * target * below);
  }
};

}  // namespace ferry::kernels
