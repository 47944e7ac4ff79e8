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
