// Elementwise ops of two operands: one functor an op, for floats and integers (which wrap around).
#pragma once

#include "src/kernels/functor.h"

namespace ferry::kernels {

struct Add {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Sub {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};

struct Mul {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

// Requires: b != 0 for integers. Their quotient is truncated.
struct Div {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      // The smallest integer has no positive counterpart.
      if (b == T(-1)) return Sub{}(T(0), a);
    }
    return static_cast<T>(a / b);
  }
};

// NaN wins, as in every framework that users compare with.
struct Maximum {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

struct Minimum {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};

struct SquareError {
  template <class T>
  FERRY_FUNCTOR T operator()(T a, T b) const {
    return Mul{}(Sub{}(a, b), Sub{}(a, b));
  }
};

struct Equal {
  template <class T>
  FERRY_FUNCTOR bool operator()(T a, T b) const {
    return a == b;
  }
};

struct Greater {
  template <class T>
  FERRY_FUNCTOR bool operator()(T a, T b) const {
    return a > b;
  }
};

struct Less {
  template <class T>
  FERRY_FUNCTOR bool operator()(T a, T b) const {
    return a < b;
  }
};

struct SquareErrorBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T a, T b) const {
    return T(2) * dy * (a - b);
  }
};

// Gradients: (dy, y) → dx, y being the forward output; abs: (dy, x) → dx.

struct ReluBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T y) const {
    return y > T(0) ? dy : T(0);
  }
};

struct TanhBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T y) const {
    return dy * (T(1) - y * y);
  }
};

struct SigmoidBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T y) const {
    return dy * (y * (T(1) - y));
  }
};

struct AbsBackward {
  template <class T>
  FERRY_FUNCTOR T operator()(T dy, T x) const {
    return x > T(0) ? dy : x < T(0) ? Sub{}(T(0), dy) : T(0);
  }
};

}  // namespace ferry::kernels
