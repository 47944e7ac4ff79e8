#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/optimizer_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <type_traits>

#include "src/backends/cpu/optimizer_loops.h"
#include "src/base/check.h"
#include "src/kernels/lanes.h"
#include "src/kernels/optimizer.h"

#ifndef FERRY_OPTIMIZER_TABLE
#define FERRY_OPTIMIZER_TABLE
namespace ferry::cpu_backend {
using ScaleTable = std::array<ScaleLoops, kDTypeCount>;
}
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class C>
kernels::Sgd<C> rule_of(kernels::Sgd<C>*, const ops::OptimizerAttributes& a) {
  return {.rate = static_cast<C>(a.rate),
          .momentum = static_cast<C>(a.momentum),
          .undampened = static_cast<C>(1 - a.dampening),
          .weight_decay = static_cast<C>(a.weight_decay),
          .nesterov = a.nesterov,
          .first_step = a.first_step};
}

template <class C>
kernels::Adam<C> rule_of(kernels::Adam<C>*, const ops::OptimizerAttributes& a) {
  return {.rate = static_cast<C>(a.rate / a.correction1),
          .beta1 = static_cast<C>(a.beta1),
          .beta2 = static_cast<C>(a.beta2),
          .rest1 = static_cast<C>(1 - a.beta1),
          .rest2 = static_cast<C>(1 - a.beta2),
          .root_correction = static_cast<C>(1 / std::sqrt(a.correction2)),
          .epsilon = static_cast<C>(a.epsilon),
          .weight_decay = static_cast<C>(a.weight_decay),
          .shrink = static_cast<C>(a.shrink)};
}

template <class C>
kernels::Adagrad<C> rule_of(kernels::Adagrad<C>*, const ops::OptimizerAttributes& a) {
  return {.rate = static_cast<C>(a.rate),
          .weight_decay = static_cast<C>(a.weight_decay),
          .epsilon = static_cast<C>(a.epsilon)};
}

// One element of a run, and blocks of constant length of them, which become straight vector code.
template <class Rule, class T, int kStates, bool kMaster>
struct Step {
  using C = kernels::Compute<T>;

  template <int kCount>
  void block(std::int64_t from) const {
    FERRY_INDEPENDENT
    for (std::int64_t i = from; i < from + kCount; ++i) element(i);
  }

  void element(std::int64_t i) const {
    const C gradient = kernels::load(g[i]);
    C value = kMaster ? master[i] : kernels::load(p[i]);
    if constexpr (kStates == 0) {
      value = rule(value, gradient);
    } else if constexpr (kStates == 1) {
      C a = s0[i];
      value = rule(value, gradient, a);
      s0[i] = a;
    } else if constexpr (kStates == 2) {
      C a = s0[i], b = s1[i];
      value = rule(value, gradient, a, b);
      s0[i] = a;
      s1[i] = b;
    } else {
      C a = s0[i], b = s1[i], c = s2[i];
      value = rule(value, gradient, a, b, c);
      s0[i] = a;
      s1[i] = b;
      s2[i] = c;
    }
    if constexpr (kMaster) master[i] = value;
    p[i] = kernels::store<T>(value);
  }

  Rule rule;
  T* p;
  const T* g;
  C *s0, *s1, *s2, *master;
};

template <template <class> class Rule, class T, int kStates, bool kMaster>
void step(const ops::OptimizerAttributes& attributes, std::span<const OptimizerRun> runs) {
  using C = kernels::Compute<T>;
  const auto rule = rule_of(static_cast<Rule<C>*>(nullptr), attributes);
  for (const OptimizerRun& run : runs) {
    const Step<Rule<C>, T, kStates, kMaster> step{.rule = rule,
                                                  .p = reinterpret_cast<T*>(run.parameter),
                                                  .g = reinterpret_cast<const T*>(run.gradient),
                                                  .s0 = reinterpret_cast<C*>(run.state[0]),
                                                  .s1 = reinterpret_cast<C*>(run.state[1]),
                                                  .s2 = reinterpret_cast<C*>(run.state[2]),
                                                  .master = reinterpret_cast<C*>(run.master)};
    const std::int64_t n = run.length;
    std::int64_t i = 0;
    for (; i + 16 <= n; i += 16) step.template block<16>(i);
    if ((n & 8) != 0) step.template block<8>(i), i += 8;
    if ((n & 4) != 0) step.template block<4>(i), i += 4;
    if ((n & 2) != 0) step.template block<2>(i), i += 2;
    if ((n & 1) != 0) step.element(i);
  }
}

template <template <class> class Rule, int kStates>
OptimizerLoop loop_of(DType dtype, bool has_master) {
  switch (dtype) {
    case DType::f32:
      return has_master ? nullptr : step<Rule, float, kStates, false>;
    case DType::f64:
      return has_master ? nullptr : step<Rule, double, kStates, false>;
    case DType::f16:
      return has_master ? step<Rule, float16, kStates, true> : step<Rule, float16, kStates, false>;
    case DType::bf16:
      return has_master ? step<Rule, bfloat16, kStates, true> : step<Rule, bfloat16, kStates, false>;
    default:
      return nullptr;
  }
}

OptimizerLoop find_loop(OptimizerRule rule, DType dtype, std::size_t states, bool has_master) {
  switch (rule) {
    case OptimizerRule::sgd:
      if (states == 0) return loop_of<kernels::Sgd, 0>(dtype, has_master);
      return states == 1 ? loop_of<kernels::Sgd, 1>(dtype, has_master) : nullptr;
    case OptimizerRule::adam:
      if (states == 2) return loop_of<kernels::Adam, 2>(dtype, has_master);
      return states == 3 ? loop_of<kernels::Adam, 3>(dtype, has_master) : nullptr;
    case OptimizerRule::adagrad:
      return states == 1 ? loop_of<kernels::Adagrad, 1>(dtype, has_master) : nullptr;
  }
  return nullptr;
}

template <class T>
void scale(std::byte* bytes, std::int64_t n, double factor) {
  using C = kernels::Compute<T>;
  auto* const x = reinterpret_cast<T*>(bytes);
  const C f = static_cast<C>(factor);
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) x[i] = kernels::store<T>(kernels::load(x[i]) * f);
}

template <class T>
bool unscale(std::byte* bytes, std::int64_t n, double factor) {
  using C = kernels::Compute<T>;
  auto* const x = reinterpret_cast<T*>(bytes);
  const C f = static_cast<C>(factor);
  // x * 0 is 0 unless x is infinite or NaN, which stay in the sum.
  C trace = 0;
  constexpr int kWidth = kernels::kLanes;
  C lanes[kWidth] = {};
  std::int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    for (int j = 0; j < kWidth; ++j) {
      const C value = kernels::load(x[i + j]);
      lanes[j] += value * C(0);
      x[i + j] = kernels::store<T>(value * f);
    }
  }
  for (; i < n; ++i) {
    const C value = kernels::load(x[i]);
    trace += value * C(0);
    x[i] = kernels::store<T>(value * f);
  }
  for (const C lane : lanes) trace += lane;
  return trace == C(0);
}

template <class T>
void clamp(std::byte* bytes, std::int64_t n, double limit) {
  using C = kernels::Compute<T>;
  auto* const x = reinterpret_cast<T*>(bytes);
  const C high = static_cast<C>(limit), low = -high;
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const C value = kernels::load(x[i]);
    const C above = value < low ? low : value;
    x[i] = kernels::store<T>(above > high ? high : above);
  }
}

template <class T>
double square_sum(const std::byte* bytes, std::int64_t n) {
  auto* const x = reinterpret_cast<const T*>(bytes);
  using C = kernels::Compute<T>;
  constexpr std::int64_t kPiece = 4096;
  double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += kPiece) {
    const T* const from = x + begin;
    sum += static_cast<double>(kernels::lane_sum<C>(n - begin < kPiece ? n - begin : kPiece, [&](std::int64_t i) {
      const C value = kernels::load(from[i]);
      return value * value;
    }));
  }
  return sum;
}

ScaleTable scale_table() {
  ScaleTable table{};
  table[static_cast<int>(DType::f32)] = {scale<float>, unscale<float>, clamp<float>, square_sum<float>};
  table[static_cast<int>(DType::f64)] = {scale<double>, unscale<double>, clamp<double>, square_sum<double>};
  table[static_cast<int>(DType::f16)] = {scale<float16>, unscale<float16>, clamp<float16>, square_sum<float16>};
  table[static_cast<int>(DType::bf16)] = {scale<bfloat16>, unscale<bfloat16>, clamp<bfloat16>, square_sum<bfloat16>};
  return table;
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(find_loop);
HWY_EXPORT(scale_table);

OptimizerLoop optimizer_loop(std::string_view op, OptimizerRule rule, DType dtype, std::size_t states,
                             bool has_master) {
  const OptimizerLoop loop = HWY_DYNAMIC_DISPATCH(find_loop)(rule, dtype, states, has_master);
  FERRY_CHECK(loop != nullptr, InvalidArgument, "{}: no host kernel for {} with {} states{}", op, name_of(dtype),
              states, has_master ? " and a master" : "");
  return loop;
}

const ScaleLoops& scale_loops(DType dtype) {
  static const ScaleTable table = HWY_DYNAMIC_DISPATCH(scale_table)();
  return table[static_cast<std::size_t>(dtype)];
}

}  // namespace ferry::cpu_backend
#endif
