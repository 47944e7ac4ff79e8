// Elementwise ops of one operand, and of one operand and a scalar.
#pragma once

#include "src/kernels/elementwise.h"
#include "src/kernels/math.h"

namespace ferry::kernels {

struct Neg {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return -x;
    return Sub{}(T(0), x);
  }
};

struct Abs {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    return x < T(0) ? Neg{}(x) : x;
  }
};

struct Square {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return Mul{}(x, x);
  }
};

// NaN stays NaN.
struct Relu {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return x <= T(0) ? T(0) : x;
  }
};

struct Sqrt {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return kernels::sqrt(x);
  }
};

struct Exp {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return kernels::exp(x);
  }
};

struct Log {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return kernels::log(x);
  }
};

struct Tanh {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return kernels::tanh(x);
  }
};

struct Sigmoid {
  template <class T>
  FERRY_FUNCTOR T operator()(T x) const {
    return kernels::sigmoid(x);
  }
};

// The scalar is the first operand.
template <class Op>
struct Reversed {
  template <class T>
  FERRY_FUNCTOR T operator()(T x, T scalar) const {
    return Op{}(scalar, x);
  }
};

// Integers: x^n wraps around; a negative n gives the truncated quotient 1 / x^|n|, 0 for x = 0.
struct Pow {
  template <class T>
  FERRY_FUNCTOR T operator()(T x, T exponent) const {
    if constexpr (std::is_floating_point_v<T>) {
      return std::pow(x, exponent);
    } else {
      return integer_power(x, exponent);
    }
  }

 private:
  template <class T>
  FERRY_FUNCTOR static T integer_power(T x, T exponent) {
    if (exponent < T(0)) return x == T(1) ? T(1) : x == T(-1) ? ((exponent & 1) != 0 ? T(-1) : T(1)) : T(0);
    T result = T(1);
    for (; exponent != T(0); exponent = static_cast<T>(exponent >> 1)) {
      if ((exponent & 1) != 0) result = Mul{}(result, x);
      x = Mul{}(x, x);
    }
    return result;
  }
};

}  // namespace ferry::kernels
