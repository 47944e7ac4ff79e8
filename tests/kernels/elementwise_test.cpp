#include <functional>
#include <limits>

#include "src/ops/attributes.h"
#include "tests/kernels/test_array.h"

namespace ferry::testing {
namespace {

struct BinaryCase {
  const char* op;
  std::function<double(double, double)> reference;
  bool comparison = false, floats_only = false;
};

// Integers wrap; the operands below are small enough that only u8 does.
double stored(DType dtype, double value) {
  if (dtype == DType::u8) return static_cast<double>(static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
  if (!is_floating(dtype)) return std::trunc(value);
  return rounded(dtype, value);
}

class Binary : public ::testing::TestWithParam<BinaryCase> {};

TEST_P(Binary, MatchesReferenceForEveryTypeAndLayout) {
  const BinaryCase& test = GetParam();
  std::mt19937 random(7);
  for (const DType dtype : kNumeric) {
    if (test.floats_only && !is_floating(dtype)) continue;
    for (const Shape& shape : test_shapes()) {
      const Layout out_layout =
          std::array{Layout::contiguous, Layout::gaps, Layout::channels_last, Layout::reversed}[random() % 4];
      Array a(dtype, shape, kLayouts[random() % 5]), b(dtype, shape, kLayouts[random() % 5]);
      Array y(test.comparison ? DType::boolean : dtype, shape, out_layout);
      a.randomize(random);
      b.randomize(random, 1, 12);
      run(test.op, {a.view(), b.view()}, {y.view()});
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        const double expected = stored(y.dtype(), test.reference(a.get(i), b.get(i)));
        ASSERT_EQ(y.get(i), expected) << name_of(dtype) << to_string(shape) << " at " << i << ": " << a.get(i) << ", "
                                      << b.get(i);
      }
      EXPECT_TRUE(y.guards_intact());
    }
  }
}

TEST_P(Binary, OutputMayBeTheFirstInput) {
  const BinaryCase& test = GetParam();
  if (test.comparison) return;  // the output has another dtype than the inputs
  std::mt19937 random(8);
  for (const DType dtype : kNumeric) {
    if (test.floats_only && !is_floating(dtype)) continue;
    for (const Shape& shape : test_shapes()) {
      for (const Layout layout : {Layout::contiguous, Layout::reversed, Layout::gaps, Layout::channels_last}) {
        Array a(dtype, shape, layout), b(dtype, shape, kLayouts[random() % 5]), separate(dtype, shape, layout);
        a.randomize(random);
        b.randomize(random, 1, 9);
        run(test.op, {a.view(), b.view()}, {separate.view()});
        run(test.op, {a.view(), b.view()}, {a.view()});
        ASSERT_EQ(a.values(), separate.values()) << name_of(dtype) << to_string(shape);
      }
    }
  }
}

// In the working precision of `float` where a quotient or product would differ when rounded twice.
INSTANTIATE_TEST_SUITE_P(
    Ops, Binary,
    ::testing::Values(BinaryCase{"add", [](double a, double b) { return a + b; }},
                      BinaryCase{"sub", [](double a, double b) { return a - b; }},
                      BinaryCase{"mul", [](double a, double b) { return a * b; }},
                      BinaryCase{"div", [](double a, double b) { return a / b; }},
                      BinaryCase{"maximum", [](double a, double b) { return std::max(a, b); }},
                      BinaryCase{"minimum", [](double a, double b) { return std::min(a, b); }},
                      BinaryCase{"square_error", [](double a, double b) { return (a - b) * (a - b); }},
                      BinaryCase{"equal", [](double a, double b) { return a == b; }, true},
                      BinaryCase{"greater", [](double a, double b) { return a > b; }, true},
                      BinaryCase{"less", [](double a, double b) { return a < b; }, true},
                      BinaryCase{"relu_backward", [](double dy, double y) { return y > 0 ? dy : 0; }, false, true},
                      BinaryCase{"abs_backward", [](double dy, double x) { return x > 0   ? dy
                                                                                  : x < 0 ? -dy
                                                                                          : 0; },
                                 false, true}),
    [](const auto& param_info) { return std::string(param_info.param.op); });

TEST(BinaryGradient, TanhAndSigmoidFollowTheFormula) {
  std::mt19937 random(9);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Array dy(dtype, {5, 9}, Layout::reversed), y(dtype, {5, 9}), tanh(dtype, {5, 9}), sigmoid(dtype, {5, 9});
    dy.randomize(random);
    y.randomize(random, -2, 2);
    run("tanh_backward", {dy.view(), y.view()}, {tanh.view()});
    run("sigmoid_backward", {dy.view(), y.view()}, {sigmoid.view()});
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      EXPECT_EQ(tanh.get(i), rounded(dtype, dy.get(i) * (1 - y.get(i) * y.get(i))));
      EXPECT_EQ(sigmoid.get(i), rounded(dtype, dy.get(i) * (y.get(i) * (1 - y.get(i)))));
    }
  }
}

// Dense and repeated operands, which have loops of their own, and others.
TEST(BinaryGradient, SquareErrorFollowsTheFormula) {
  std::mt19937 random(9);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Array a(dtype, {5, 70}, Layout::reversed), flat(dtype, {5, 70}), dy(dtype, {5, 70}), b(dtype, {5, 70});
    for (Array* array : {&a, &flat, &dy, &b}) array->randomize(random, -2, 2);
    for (const bool one_dy : {false, true}) {
      for (const bool one_b : {false, true}) {
        for (Array* x : {&a, &flat}) {
          TensorView dy_view = dy.view(), b_view = b.view();
          if (one_dy) dy_view.strides = {0, 0};
          if (one_b) b_view.strides = {0, 0};
          Array dx(dtype, {5, 70}), scalar_dx(dtype, {5, 70});
          run("square_error_backward", {dy_view, x->view(), b_view}, {dx.view()});
          run("square_error_scalar_backward", {dy_view, x->view()}, {scalar_dx.view()}, ops::ScalarAttributes{0.25});
          for (std::int64_t i = 0; i < x->numel(); ++i) {
            const double slope = 2 * dy.get(one_dy ? 0 : i);
            EXPECT_EQ(dx.get(i), rounded(dtype, slope * (x->get(i) - b.get(one_b ? 0 : i))));
            EXPECT_EQ(scalar_dx.get(i), rounded(dtype, slope * (x->get(i) - 0.25)));
          }
        }
      }
    }
  }
}

TEST(Integers, WrapAroundAndDivideAtTheirLimits) {
  constexpr double kLowest = -2147483648.0, kLargest = 2147483647.0;
  Array a = Array::of(DType::i32, {4}, {kLowest, kLargest, -7, 7}), b = Array::of(DType::i32, {4}, {-1, -2, 2, -2});
  Array y(DType::i32, {4});
  run("div", {a.view(), b.view()}, {y.view()});
  EXPECT_EQ(y.values(), (std::vector<double>{kLowest, -1073741823, -3, -3}));
  run("add", {a.view(), b.view()}, {y.view()});
  EXPECT_EQ(y.values(), (std::vector<double>{kLargest, kLargest - 2, -5, 5}));
  run("mul", {a.view(), b.view()}, {y.view()});
  EXPECT_EQ(y.values(), (std::vector<double>{kLowest, 2, -14, -14}));
  run("neg", {a.view()}, {y.view()});
  EXPECT_EQ(y.values(), (std::vector<double>{kLowest, -kLargest, 7, -7}));
}

TEST(Integers, DivisionByZeroIsAnErrorBeforeAnythingIsWritten) {
  for (const DType dtype : {DType::i32, DType::i64, DType::u8}) {
    Array a = Array::of(dtype, {3}, {4, 5, 6}), b = Array::of(dtype, {3}, {2, 0, 1});
    const auto before = a.values();
    EXPECT_NE(message_of([&] { run("div", {a.view(), b.view()}, {a.view()}); }).find("div: the "), std::string::npos);
    EXPECT_NE(message_of([&] { run("rdiv_scalar", {b.view()}, {b.view()}, ops::ScalarAttributes{1}); }).find("holds 0"),
              std::string::npos);
    EXPECT_EQ(a.values(), before);
  }
}

TEST(Floats, NanWinsMaximumAndMinimum) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Array a = Array::of(dtype, {3}, {nan, 1, 2}), b = Array::of(dtype, {3}, {1, nan, 3}), y(dtype, {3});
    for (const char* op : {"maximum", "minimum"}) {
      run(op, {a.view(), b.view()}, {y.view()});
      EXPECT_TRUE(std::isnan(y.get(0)) && std::isnan(y.get(1)) && !std::isnan(y.get(2))) << op;
    }
  }
}

struct UnaryCase {
  const char* op;
  std::function<double(double)> reference;
  double scalar = 0;
};

class ExactUnary : public ::testing::TestWithParam<UnaryCase> {};

TEST_P(ExactUnary, MatchesReferenceForEveryTypeAndLayoutAndInPlace) {
  const UnaryCase& test = GetParam();
  const ops::ScalarAttributes attributes{test.scalar};
  std::mt19937 random(10);
  for (const DType dtype : kNumeric) {
    for (const Shape& shape : test_shapes()) {
      const Layout layout = kLayouts[random() % 3];
      Array x(dtype, shape, kLayouts[random() % 5]), y(dtype, shape, layout), same(dtype, shape, layout);
      x.randomize(random, 1, 12);
      if (dtype != DType::u8 && random() % 2 == 0) x.randomize(random, -12, -1);
      for (std::int64_t i = 0; i < x.numel(); ++i) same.set(i, x.get(i));
      run(test.op, {x.view()}, {y.view()}, attributes);
      run(test.op, {same.view()}, {same.view()}, attributes);
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        ASSERT_EQ(y.get(i), stored(dtype, test.reference(x.get(i)))) << name_of(dtype) << to_string(shape) << x.get(i);
      }
      ASSERT_EQ(y.values(), same.values());
      EXPECT_TRUE(y.guards_intact());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ExactUnary,
                         ::testing::Values(UnaryCase{"neg", [](double x) { return -x; }},
                                           UnaryCase{"abs", [](double x) { return std::fabs(x); }},
                                           UnaryCase{"square", [](double x) { return x * x; }},
                                           UnaryCase{"relu", [](double x) { return x > 0 ? x : 0; }},
                                           UnaryCase{"add_scalar", [](double x) { return x + 3; }, 3},
                                           UnaryCase{"mul_scalar", [](double x) { return x * 2; }, 2},
                                           UnaryCase{"square_error_scalar", [](double x) { return (x - 2) * (x - 2); },
                                                     2},
                                           UnaryCase{"rsub_scalar", [](double x) { return 5 - x; }, 5},
                                           UnaryCase{"rdiv_scalar", [](double x) { return 7 / x; }, 7},
                                           UnaryCase{"pow_scalar", [](double x) { return x * x; }, 2}),
                         [](const auto& param_info) { return std::string(param_info.param.op); });

struct MathCase {
  const char* op;
  double (*reference)(double);
  double low, high;
};

class Math : public ::testing::TestWithParam<MathCase> {};

double ulp(DType dtype, double value) {
  const double magnitude = std::max(std::fabs(value), dtype == DType::f64 ? 0x1p-1022 : 0x1p-126);
  return std::ldexp(1.0, std::ilogb(magnitude) - (dtype == DType::f64 ? 52 : 23));
}

TEST_P(Math, IsWithinThreeUlp) {
  const MathCase& test = GetParam();
  constexpr std::int64_t kCount = 40001;
  for (const DType dtype : {DType::f32, DType::f64}) {
    Array x(dtype, {kCount}), y(dtype, {kCount});
    for (std::int64_t i = 0; i < kCount; ++i)
      x.set(i, test.low + (test.high - test.low) * static_cast<double>(i) / (kCount - 1));
    run(test.op, {x.view()}, {y.view()});
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double expected = test.reference(x.get(i));
      ASSERT_LE(std::fabs(y.get(i) - expected), 3 * ulp(dtype, expected)) << name_of(dtype) << " x = " << x.get(i);
    }
  }
}

TEST_P(Math, HalfTypesRoundTheFloatResult) {
  const MathCase& test = GetParam();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Array x(dtype, {701}, Layout::gaps), y(dtype, {701}), wide(DType::f32, {701}), wide_y(DType::f32, {701});
    for (std::int64_t i = 0; i < 701; ++i) {
      x.set(i, test.low + (test.high - test.low) * static_cast<double>(i) / 700);
      wide.set(i, x.get(i));
    }
    run(test.op, {x.view()}, {y.view()});
    run(test.op, {wide.view()}, {wide_y.view()});
    for (std::int64_t i = 0; i < 701; ++i) ASSERT_EQ(y.get(i), rounded(dtype, wide_y.get(i)));
  }
}

// The same value gives the same bits wherever it stands: vector bodies and scalar tails agree.
TEST_P(Math, DoesNotDependOnPosition) {
  const MathCase& test = GetParam();
  std::mt19937 random(11);
  std::uniform_real_distribution<double> pick(test.low, test.high);
  Array x(DType::f32, {97}), whole(DType::f32, {97});
  for (std::int64_t i = 0; i < 97; ++i) x.set(i, pick(random));
  run(test.op, {x.view()}, {whole.view()});
  for (std::int64_t i = 0; i < 97; ++i) {
    Array one = Array::of(DType::f32, {1}, {x.get(i)}), alone(DType::f32, {1}), spread(DType::f32, {97}, Layout::gaps);
    run(test.op, {one.view()}, {alone.view()});
    ASSERT_EQ(alone.get(0), whole.get(i));
    TensorView tail = x.view(), tail_y = spread.view();
    tail.data = tail.as<float>() + i;
    tail.shape = tail_y.shape = {97 - i};
    run(test.op, {tail}, {tail_y});
    ASSERT_EQ(spread.get(0), whole.get(i));
    ASSERT_EQ(spread.get(96 - i), whole.get(96));
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

INSTANTIATE_TEST_SUITE_P(Ops, Math,
                         ::testing::Values(MathCase{"exp", std::exp, -103, 88}, MathCase{"log", std::log, 1e-30, 30},
                                           MathCase{"sqrt", std::sqrt, 0, 1000}, MathCase{"tanh", std::tanh, -12, 12},
                                           MathCase{"sigmoid", sigmoid, -80, 80}),
                         [](const auto& param_info) { return std::string(param_info.param.op); });

TEST(MathLimits, FollowTheStandardLibrary) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto check = [&](const char* op, double (*reference)(double), const std::vector<double>& at) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const double x : at) {
        Array in = Array::of(dtype, {1}, {x}), out(dtype, {1});
        run(op, {in.view()}, {out.view()});
        const double expected = rounded(dtype, reference(in.get(0)));
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(out.get(0))) << op << x;
        } else {
          EXPECT_EQ(out.get(0), expected) << op << x << name_of(dtype);
        }
      }
    }
  };
  check("exp", std::exp, {0, -inf, inf, nan, 1000, -1000});
  check("log", std::log, {1, 0, -0.0, -1, inf, -inf, nan});
  check("sqrt", std::sqrt, {0, 4, -1, inf, nan});
  check("tanh", std::tanh, {0, inf, -inf, nan, 50, -50});
  check("sigmoid", sigmoid, {0, inf, -inf, nan, 200});
  Array tiny = Array::of(DType::f32, {1}, {0x1p-149}), out(DType::f32, {1});
  run("log", {tiny.view()}, {out.view()});
  EXPECT_NEAR(out.get(0), -149 * std::log(2.0), 2e-5);
}

TEST(Types, AKernelNamesTheTypeItLacks) {
  Array x(DType::i32, {2});
  EXPECT_EQ(message_of([&] { run("exp", {x.view()}, {x.view()}); }), "exp: no host kernel for i32");
}

}  // namespace
}  // namespace ferry::testing
