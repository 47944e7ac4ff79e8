#include <limits>

#include "tests/kernels_dnn/kernel_case.h"

namespace ferry::test {
namespace {

using ops::Pool2dAttributes;

struct PoolCase {
  Shape x;
  Pool2dAttributes attributes;
};

struct PoolParameter {
  DType dtype;
  Order x, y;
};

std::vector<PoolCase> pool_cases() {
  return {{{2, 3, 8, 8}, {.kernel = {2, 2}, .stride = {2, 2}}},
          {{1, 1, 1, 1}, {}},
          {{2, 1, 7, 7}, {.kernel = {7, 7}, .stride = {7, 7}}},
          {{2, 70, 9, 7}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
          {{1, 5, 6, 11}, {.kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 0}, .count_include_pad = false}},
          {{3, 64, 5, 5}, {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}, .count_include_pad = false}},
          {{0, 4, 6, 6}, {.kernel = {2, 2}, .stride = {2, 2}}}};
}

Shape pooled(const PoolCase& s) {
  Shape y = s.x;
  for (int i = 0; i < 2; ++i) {
    const Pool2dAttributes& a = s.attributes;
    y[i + 2] = (s.x[i + 2] + 2 * a.padding[i] - a.kernel[i]) / a.stride[i] + 1;
  }
  return y;
}

// Calls visit(x index, window position r * KW + c) for the elements of x in output i's window.
void for_each_in_window(const PoolCase& s, std::int64_t i,
                        const std::function<void(std::int64_t, std::int64_t)>& visit) {
  const Shape y = pooled(s);
  const Pool2dAttributes& a = s.attributes;
  const std::int64_t ow = i % y[3], oh = i / y[3] % y[2], plane = i / (y[3] * y[2]);
  for (std::int64_t r = 0; r < a.kernel[0]; ++r) {
    for (std::int64_t c = 0; c < a.kernel[1]; ++c) {
      const std::int64_t ih = oh * a.stride[0] - a.padding[0] + r, iw = ow * a.stride[1] - a.padding[1] + c;
      if (ih < 0 || ih >= s.x[2] || iw < 0 || iw >= s.x[3]) continue;
      visit((plane * s.x[2] + ih) * s.x[3] + iw, r * a.kernel[1] + c);
    }
  }
}

double divisor(const PoolCase& s, std::int64_t i) {
  if (s.attributes.count_include_pad) return static_cast<double>(s.attributes.kernel[0] * s.attributes.kernel[1]);
  double count = 0;
  for_each_in_window(s, i, [&](auto, auto) { ++count; });
  return count;
}

class Pool2d : public ::testing::TestWithParam<PoolParameter> {
 protected:
  Array x_array(const PoolCase& s) const { return Array(s.x, GetParam().dtype, GetParam().x); }
  Array y_array(const PoolCase& s) const { return Array(pooled(s), GetParam().dtype, GetParam().y); }
};

TEST_P(Pool2d, MaximumAndItsFirstPositionAndGradient) {
  for (const PoolCase& s : pool_cases()) {
    for (const DType index_type : {DType::u8, DType::i32}) {
      const Array x = x_array(s).randomize(1), dy = y_array(s).randomize(2);
      Array y = y_array(s), index(pooled(s), index_type, GetParam().y), dx = x_array(s);
      run("max_pool2d", {x.view()}, {y.view(), index.view()}, s.attributes);
      run("max_pool2d_backward", {dy.view(), index.view()}, {dx.view()}, s.attributes);
      std::vector<double> expected_dx(static_cast<std::size_t>(dx.numel()));
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        double best = -std::numeric_limits<double>::infinity();
        std::int64_t source = -1, position = -1;
        for_each_in_window(s, i, [&](std::int64_t at, std::int64_t window) {
          if (x.at(at) > best) best = x.at(at), source = at, position = window;
        });
        ASSERT_EQ(y.at(i), best);
        ASSERT_EQ(index.at(i), static_cast<double>(position)) << to_string(s.x) << " output " << i;
        expected_dx[static_cast<std::size_t>(source)] += dy.at(i);
      }
      expect_close(dx.values(), expected_dx, tolerance(GetParam().dtype), to_string(s.x));
    }
  }
}

TEST_P(Pool2d, AverageAndItsGradient) {
  for (const PoolCase& s : pool_cases()) {
    const Array x = x_array(s).randomize(3), dy = y_array(s).randomize(4);
    Array y = y_array(s), dx = x_array(s);
    run("avg_pool2d", {x.view()}, {y.view()}, s.attributes);
    run("avg_pool2d_backward", {dy.view()}, {dx.view()}, s.attributes);
    std::vector<double> expected_y(static_cast<std::size_t>(y.numel())),
        expected_dx(static_cast<std::size_t>(dx.numel()));
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      for_each_in_window(s, i, [&](std::int64_t at, std::int64_t) {
        expected_y[static_cast<std::size_t>(i)] += x.at(at) / divisor(s, i);
        expected_dx[static_cast<std::size_t>(at)] += dy.at(i) / divisor(s, i);
      });
    }
    expect_close(y.values(), expected_y, tolerance(GetParam().dtype), to_string(s.x));
    expect_close(dx.values(), expected_dx, tolerance(GetParam().dtype), to_string(s.x));
  }
}

TEST_P(Pool2d, NaNWinsAndEqualValuesGiveTheFirst) {
  const PoolCase s{{1, 2, 2, 4}, {.kernel = {2, 2}, .stride = {2, 2}}};
  Array x = x_array(s).fill(0.5), y = y_array(s), index(pooled(s), DType::u8, GetParam().y);
  x.set(5, std::numeric_limits<double>::quiet_NaN());  // channel 0, first window, position 3
  for (const std::int64_t at : {8, 9, 12, 13}) x.set(at, -std::numeric_limits<double>::infinity());  // channel 1
  run("max_pool2d", {x.view()}, {y.view(), index.view()}, s.attributes);
  EXPECT_TRUE(std::isnan(y.at(0)));
  EXPECT_EQ(index.values(), (std::vector<double>{3, 0, 0, 0}));
  EXPECT_EQ(y.at(1), 0.5);
  EXPECT_EQ(y.at(2), -std::numeric_limits<double>::infinity());
}

std::vector<PoolParameter> pool_parameters() {
  std::vector<PoolParameter> all;
  for (const DType dtype : kFloats) {
    for (const Order x : {Order::contiguous, Order::channels_last}) {
      for (const Order y : {Order::contiguous, Order::channels_last}) all.push_back({dtype, x, y});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Orders, Pool2d, testing::ValuesIn(pool_parameters()), parameter_name<PoolParameter>);

}  // namespace
}  // namespace ferry::test
