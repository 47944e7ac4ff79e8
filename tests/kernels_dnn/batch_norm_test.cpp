#include <algorithm>
#include <limits>
#include <string_view>

#include "tests/kernels_dnn/kernel_case.h"

namespace ferry::test {
namespace {

constexpr double kEpsilon = 1e-3;

struct NormParameter {
  DType dtype;
  Order x, y;
};

std::vector<Shape> shapes() {
  return {{5, 3},        {1, 1},        {40, 70},       {2, 3, 5, 7}, {1, 1, 1, 1},
          {3, 33, 1, 1}, {2, 64, 7, 7}, {4, 5, 40, 31}, {0, 4, 3, 3}};
}

std::size_t channel_of(const Shape& shape, std::int64_t i) {
  const std::int64_t plane = shape.rank() == 4 ? shape[2] * shape[3] : 1;
  return static_cast<std::size_t>(i / plane % shape[1]);
}

struct Expected {
  std::vector<double> mean, inverse_std;
};

Expected statistics(const Array& x) {
  const auto channels = static_cast<std::size_t>(x.shape()[1]);
  const double n = std::max(1.0, static_cast<double>(x.numel()) / static_cast<double>(channels));
  Expected e{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::int64_t i = 0; i < x.numel(); ++i) e.mean[channel_of(x.shape(), i)] += x.at(i) / n;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::size_t c = channel_of(x.shape(), i);
    e.inverse_std[c] += (x.at(i) - e.mean[c]) * (x.at(i) - e.mean[c]) / n;
  }
  for (double& value : e.inverse_std) value = 1 / std::sqrt(value + kEpsilon);
  return e;
}

class BatchNorm : public ::testing::TestWithParam<NormParameter> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  DType statistics_dtype() const { return dtype() == DType::f64 ? DType::f64 : DType::f32; }
  Array channels(const Shape& shape, DType type) const { return Array({shape[1]}, type); }
  double tolerance_here() const { return 4 * tolerance(dtype()); }
};

TEST_P(BatchNorm, NormalizesByTheBatch) {
  for (const Shape& shape : shapes()) {
    const Array x = Array(shape, dtype(), GetParam().x).randomize(1);
    const Array gamma = channels(shape, dtype()).randomize(2), beta = channels(shape, DType::f32).randomize(3);
    Array mean = channels(shape, statistics_dtype()), inverse_std = channels(shape, statistics_dtype());
    Array y(shape, dtype(), GetParam().y);
    const Expected e = statistics(x);
    for (const bool affine : {true, false}) {
      const TensorView none;
      run("batch_norm", {x.view(), affine ? gamma.view() : none, affine ? beta.view() : none},
          {y.view(), mean.view(), inverse_std.view()}, ops::BatchNormAttributes{kEpsilon});
      std::vector<double> expected(static_cast<std::size_t>(x.numel()));
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const std::size_t c = channel_of(shape, i);
        const double normal = (x.at(i) - e.mean[c]) * e.inverse_std[c];
        const auto at = static_cast<std::int64_t>(c);
        expected[static_cast<std::size_t>(i)] = affine ? normal * gamma.at(at) + beta.at(at) : normal;
      }
      expect_close(y.values(), expected, tolerance_here(), to_string(shape));
      expect_close(mean.values(), e.mean, tolerance(statistics_dtype()), to_string(shape) + " mean");
      expect_close(inverse_std.values(), e.inverse_std, 4 * tolerance(statistics_dtype()), to_string(shape) + " std");
    }
  }
}

TEST_P(BatchNorm, GradientsMatchTheFormula) {
  for (const Shape& shape : shapes()) {
    const Array x = Array(shape, dtype(), GetParam().x).randomize(4);
    const Array dy = Array(shape, dtype(), GetParam().y).randomize(5);
    const Array gamma = channels(shape, dtype()).randomize(6);
    const Expected e = statistics(x);
    Array mean = channels(shape, statistics_dtype()), inverse_std = channels(shape, statistics_dtype());
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      mean.set(c, e.mean[static_cast<std::size_t>(c)]);
      inverse_std.set(c, e.inverse_std[static_cast<std::size_t>(c)]);
    }
    std::vector<double> dgamma(e.mean.size()), dbeta(e.mean.size());
    const auto normal = [&](std::int64_t i) {
      const std::size_t c = channel_of(shape, i);
      return (x.at(i) - e.mean[c]) * e.inverse_std[c];
    };
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      dgamma[channel_of(shape, i)] += dy.at(i) * normal(i);
      dbeta[channel_of(shape, i)] += dy.at(i);
    }
    const double n = std::max(1.0, static_cast<double>(x.numel()) / static_cast<double>(shape[1]));
    for (const bool affine : {true, false}) {
      std::vector<double> expected(static_cast<std::size_t>(x.numel()));
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const std::size_t c = channel_of(shape, i);
        const double scale = (affine ? gamma.at(static_cast<std::int64_t>(c)) : 1) * e.inverse_std[c];
        expected[static_cast<std::size_t>(i)] = scale * (dy.at(i) - dbeta[c] / n - normal(i) * dgamma[c] / n);
      }
      Array dx(shape, dtype(), GetParam().x);
      Array dg = channels(shape, dtype()), db = channels(shape, dtype());
      const TensorView none;
      run("batch_norm_backward", {dy.view(), x.view(), affine ? gamma.view() : none, mean.view(), inverse_std.view()},
          {dx.view(), affine ? dg.view() : none, affine ? db.view() : none}, ops::BatchNormAttributes{kEpsilon});
      expect_close(dx.values(), expected, tolerance_here(), to_string(shape));
      if (!affine) continue;
      expect_close(dg.values(), dgamma, tolerance_here(), to_string(shape) + " dgamma");
      expect_close(db.values(), dbeta, tolerance_here(), to_string(shape) + " dbeta");
    }
  }
}

TEST_P(BatchNorm, InferenceUsesRunningStatistics) {
  for (const Shape& shape : shapes()) {
    const Array x = Array(shape, dtype(), GetParam().x).randomize(7);
    const Array gamma = channels(shape, dtype()).randomize(8), beta = channels(shape, dtype()).randomize(9);
    const Array mean = channels(shape, statistics_dtype()).randomize(10);
    Array var = channels(shape, statistics_dtype());
    for (std::int64_t c = 0; c < shape[1]; ++c) var.set(c, 0.5 + static_cast<double>(c % 4));
    Array y(shape, dtype(), GetParam().y);
    run("batch_norm_inference", {x.view(), gamma.view(), beta.view(), mean.view(), var.view()}, {y.view()},
        ops::BatchNormAttributes{kEpsilon});
    std::vector<double> expected(static_cast<std::size_t>(x.numel()));
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const auto c = static_cast<std::int64_t>(channel_of(shape, i));
      expected[static_cast<std::size_t>(i)] =
          (x.at(i) - mean.at(c)) / std::sqrt(var.at(c) + kEpsilon) * gamma.at(c) + beta.at(c);
    }
    expect_close(y.values(), expected, tolerance_here(), to_string(shape));
  }
}

// An array without gaps, byte by byte.
std::string_view bytes_of(const Array& array) {
  return {static_cast<const char*>(array.view().data),
          static_cast<std::size_t>(array.numel() * size_of(array.dtype()))};
}

void expect_same_bytes(const Array& actual, const Array& expected, const std::string& what) {
  if (bytes_of(actual) == bytes_of(expected)) return;
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    const double is = actual.at(i), should_be = expected.at(i);
    const bool same =
        std::isnan(is) ? std::isnan(should_be) : is == should_be && std::signbit(is) == std::signbit(should_be);
    if (!same) FAIL() << what << ": element " << i << " is " << is << ", expected " << should_be;
  }
  FAIL() << what << ": NaN of other bits";
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kChannelKinds = 5;

// One channel after the other: any values, one value everywhere, a NaN among others, infinities among others, and
// values that are scaled to almost nothing.
Array values_of_all_kinds(const Shape& shape, DType dtype, Order order, std::int64_t first) {
  Array x = Array(shape, dtype, order).randomize(11);
  std::vector<std::int64_t> met(static_cast<std::size_t>(shape[1]));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::size_t c = channel_of(shape, i);
    const std::int64_t kind = (static_cast<std::int64_t>(c) + first) % kChannelKinds, count = met[c]++;
    if (kind == 1) x.set(i, 0.7);
    if (kind == 2 && count == 2) x.set(i, kNaN);
    if (kind == 3 && count % 4 == 1) x.set(i, count % 8 == 1 ? kInfinity : -kInfinity);
  }
  return x;
}

// Below what f16 and bf16 hold, so that negative results become -0 there.
double almost_nothing(DType dtype) { return dtype == DType::f64 ? 1e-310 : dtype == DType::f16 ? 1e-9 : 1e-42; }

void expect_relu_of(const Array& y, const std::vector<TensorView>& inputs, const Strides& strides, Array result,
                    const std::string& what) {
  Array expected = result;
  run("relu", {y.view()}, {expected.view()});
  run("batch_norm_apply", inputs, {result.view()}, ops::BatchNormApplyAttributes{.strides = strides, .relu = true});
  expect_same_bytes(result, expected, what + " relu");
}

TEST_P(BatchNorm, ItsStatisticsGiveTheSameAgain) {
  for (const Shape& shape : shapes()) {
    for (std::int64_t first = 0; first < (shape[1] < kChannelKinds ? kChannelKinds : 1); ++first) {
      const Array x = values_of_all_kinds(shape, dtype(), GetParam().x, first);
      Array gamma = channels(shape, statistics_dtype()).randomize(12);
      Array beta = channels(shape, dtype()).randomize(13);
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        if ((c + first) % kChannelKinds != 4) continue;
        gamma.set(c, almost_nothing(dtype()));
        beta.set(c, 0);
      }
      for (const bool affine : {true, false}) {
        const std::string what = to_string(shape) + (affine ? " affine " : " ") + std::to_string(first);
        const TensorView g = affine ? gamma.view() : TensorView(), b = affine ? beta.view() : TensorView();
        const Array empty(shape, dtype(), GetParam().y);
        Array y = empty, mean = channels(shape, statistics_dtype()), inverse_std = mean, again = empty;
        run("batch_norm", {x.view(), g, b}, {y.view(), mean.view(), inverse_std.view()},
            ops::BatchNormAttributes{kEpsilon});
        const std::vector<TensorView> inputs = {x.view(), g, b, mean.view(), inverse_std.view()};
        const Strides strides = y.view().strides;
        run("batch_norm_apply", inputs, {again.view()}, ops::BatchNormApplyAttributes{.strides = strides});
        expect_same_bytes(again, y, what);
        expect_relu_of(y, inputs, strides, empty, what);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Every value that relu treats apart comes out of the normalisation, in every place of a vector.
TEST_P(BatchNorm, ReluOfWhatIsNoOrdinaryNumber) {
  constexpr double kValues[] = {1, -1, 0, -0.0, kInfinity, -kInfinity, kNaN, 1.0 / 3, -1.0 / 3, 6e4, -6e4};
  for (const Shape& shape : {Shape{48, 5}, Shape{2, 5, 9, 11}}) {
    Array x(shape, dtype(), GetParam().x);
    for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, kValues[static_cast<std::size_t>(i * 7 % 11)]);
    const Array mean = channels(shape, statistics_dtype()).fill(0), one = channels(shape, statistics_dtype()).fill(1);
    Array gamma = one, beta = mean;
    const double scales[] = {1, -1, almost_nothing(dtype()), -almost_nothing(dtype()), 0};
    for (std::int64_t c = 0; c < 5; ++c) gamma.set(c, scales[c]);
    beta.fill(-0.0);
    for (const bool affine : {true, false}) {
      const TensorView g = affine ? gamma.view() : TensorView(), b = affine ? beta.view() : TensorView();
      const Array empty(shape, dtype(), GetParam().y);
      Array y = empty;
      const std::vector<TensorView> inputs = {x.view(), g, b, mean.view(), one.view()};
      const Strides strides = y.view().strides;
      run("batch_norm_apply", inputs, {y.view()}, ops::BatchNormApplyAttributes{.strides = strides});
      const std::vector<double> values = y.values();
      const auto count = [&](auto is) { return std::count_if(values.begin(), values.end(), is); };
      EXPECT_GT(count([](double v) { return std::isnan(v); }), 0);
      EXPECT_GT(count([](double v) { return v == -kInfinity; }), 0);
      const auto negative_zeros = count([](double v) { return v == 0 && std::signbit(v); });
      EXPECT_TRUE(!affine || negative_zeros > x.numel() / 20) << negative_zeros;
      expect_relu_of(y, inputs, strides, empty, to_string(shape) + (affine ? " affine" : ""));
      if (HasFatalFailure()) return;
    }
  }
}

std::vector<NormParameter> norm_parameters() {
  std::vector<NormParameter> all;
  for (const DType dtype : kFloats) {
    for (const Order x : {Order::contiguous, Order::channels_last}) {
      for (const Order y : {Order::contiguous, Order::channels_last}) all.push_back({dtype, x, y});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Orders, BatchNorm, testing::ValuesIn(norm_parameters()), parameter_name<NormParameter>);

TEST(BatchNormStatistics, KeepASmallVarianceBesideALargeMean) {
  for (const Order order : {Order::contiguous, Order::channels_last}) {
    Array x({4, 2, 16, 16}, DType::f32, order), y({4, 2, 16, 16}, DType::f32, order);
    for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, 4096 + 0.25 * static_cast<double>(i % 2));
    Array mean({2}, DType::f32), inverse_std({2}, DType::f32);
    run("batch_norm", {x.view()}, {y.view(), mean.view(), inverse_std.view()}, ops::BatchNormAttributes{1e-9});
    EXPECT_NEAR(inverse_std.at(0), 8, 1e-3);
    EXPECT_NEAR(mean.at(1), 4096.125, 1e-3);
  }
}

TEST(RunningAverage, MovesTowardsTheUnbiasedStatistics) {
  Array mean = Array({3}, DType::f32).fill(1), var = Array({3}, DType::f32).fill(2);
  const Array batch_mean = Array({3}, DType::f32).fill(3), inverse_std = Array({3}, DType::f32).fill(0.5);
  run("running_average_", {mean.view(), var.view(), batch_mean.view(), inverse_std.view()}, {mean.view(), var.view()},
      ops::RunningAverageAttributes{.momentum = 0.25, .epsilon = 1, .count = 10});
  EXPECT_NEAR(mean.at(2), 0.75 * 1 + 0.25 * 3, 1e-6);
  EXPECT_NEAR(var.at(0), 0.75 * 2 + 0.25 * (4.0 - 1.0) * 10 / 9, 1e-6);
}

}  // namespace
}  // namespace ferry::test
