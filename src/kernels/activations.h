// Activations of one operand, and their gradients (dy, x or y) → dx.
#pragma once

#include "src/kernels/elementwise.h"
#include "src/kernels/math.h"

namespace ferry::kernels {

// The standard normal distribution at x: what is below x, and e^(-x²/2), the density without its factor 1/sqrt(2 pi).
template <class T>
struct Normal {
  T below, bell;
};

// below is erfc(z)/2 with z = |x|/sqrt(2), mirrored; erfc(z) = e^(-z²) t p(t) with t = 1/(1 + 0.3 z) keeps the relative
// precision of the tail. p interpolates at the Chebyshev nodes of t in [1/4, 1], to 2.5e-8; for larger z the result is
// 0.
FERRY_FUNCTOR Normal<float> normal(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float t = 1.0f / (1.0f + magnitude * 0.21213203435596f);
  const float s = t - 0.625f;
  float p = -1.3077087730e-01f;
  p = p * s + -1.6192011580e-01f;
  p = p * s + 1.9575430070e-01f;
  p = p * s + 8.3896073210e-01f;
  p = p * s + 1.3809599920e+00f;
  p = p * s + 1.5179352180e+00f;
  p = p * s + 1.2504649410e+00f;
  p = p * s + 8.0431455100e-01f;
  p = p * s + 4.0863308210e-01f;
  const float bell = kernels::exp(magnitude * magnitude * -0.5f);
  const float tail = 0.5f * bell * t * p;
  return {x < 0.0f ? tail : 1.0f - tail, bell};
}

FERRY_FUNCTOR Normal<double> normal(double x) {
  return {0.5 * std::erfc(x * -0.70710678118654752440), std::exp(x * x * -0.5)};
}

// x times the normal distribution's probability of less than x (Hendrycks and Gimpel, "Gaussian error linear units",
// 2016).
struct Gelu {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return x * normal(x).below;
  }
};

struct GeluBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T x) const {
    const Normal<T> at = normal(x);
    return dy * (at.below + x * at.bell * T(0.39894228040143267794));
  }
};

// The same paper's approximation x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x³), which is x sigmoid(2u).
template <class T>
FERRY_FUNCTOR T gelu_tanh_argument(T x) {
  return T(1.59576912160573071176) * (x + T(0.044715) * x * x * x);
}

struct GeluTanh {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return x * kernels::sigmoid(gelu_tanh_argument(x));
  }
};

struct GeluTanhBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T x) const {
    const T s = kernels::sigmoid(gelu_tanh_argument(x));
    const T slope = T(1.59576912160573071176) * (T(1) + T(3 * 0.044715) * x * x);
    return dy * (s + x * s * (T(1) - s) * slope);
  }
};

struct Silu {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return x * kernels::sigmoid(x);
  }
};

struct SiluBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T x) const {
    const T s = kernels::sigmoid(x);
    return dy * (s + x * s * (T(1) - s));
  }
};

struct LeakyRelu {
  template <class T>
  FERRY_FUNCTOR T operator()(T x, T slope) const {
    return x > T(0) ? x : x * slope;
  }
};

// y's sign is x's where slope is not negative.
struct LeakyReluBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T y, T slope) const {
    return y > T(0) ? dy : dy * slope;
  }
};

}  // namespace ferry::kernels
