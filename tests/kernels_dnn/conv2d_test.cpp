#include "tests/kernels_dnn/kernel_case.h"

namespace ferry::test {
namespace {

struct ConvCase {
  std::int64_t n, c, h, w, out, kernel[2];
  ops::Conv2dAttributes attributes;
};

std::int64_t output_extent(const ConvCase& s, int i, std::int64_t input) {
  const ops::Conv2dAttributes& a = s.attributes;
  return (input + 2 * a.padding[i] - a.dilation[i] * (s.kernel[i] - 1) - 1) / a.stride[i] + 1;
}

Shape x_shape(const ConvCase& s) { return {s.n, s.c, s.h, s.w}; }
Shape w_shape(const ConvCase& s) { return {s.out, s.c / s.attributes.groups, s.kernel[0], s.kernel[1]}; }
Shape y_shape(const ConvCase& s) { return {s.n, s.out, output_extent(s, 0, s.h), output_extent(s, 1, s.w)}; }

std::size_t index_of(const Shape& shape, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
}

// Calls visit(x index, w index, y index) for every product of the convolution's sum.
void for_each_product(const ConvCase& s, const std::function<void(std::size_t, std::size_t, std::size_t)>& visit) {
  const Shape x = x_shape(s), w = w_shape(s), y = y_shape(s);
  const ops::Conv2dAttributes& a = s.attributes;
  const std::int64_t outs = s.out / a.groups;
  for (std::int64_t i = 0; i < y.product(); ++i) {
    const std::int64_t ow = i % y[3], oh = i / y[3] % y[2], o = i / (y[3] * y[2]) % y[1], n = i / (y[3] * y[2] * y[1]);
    for (std::int64_t j = 0; j < w[1] * w[2] * w[3]; ++j) {
      const std::int64_t q = j % w[3], r = j / w[3] % w[2], c = j / (w[3] * w[2]);
      const std::int64_t ih = oh * a.stride[0] - a.padding[0] + r * a.dilation[0];
      const std::int64_t iw = ow * a.stride[1] - a.padding[1] + q * a.dilation[1];
      if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) continue;
      visit(index_of(x, n, o / outs * w[1] + c, ih, iw), index_of(w, o, c, r, q), static_cast<std::size_t>(i));
    }
  }
}

std::vector<ConvCase> conv_cases() {
  return {
      {2, 3, 9, 7, 8, {3, 3}, {}},
      {1, 1, 5, 5, 1, {1, 1}, {}},
      {2, 1, 7, 7, 4, {7, 7}, {.padding = {3, 3}}},
      {2, 16, 8, 8, 16, {3, 3}, {.padding = {1, 1}}},
      {1, 40, 11, 9, 36, {3, 3}, {.padding = {1, 1}}},
      {2, 64, 7, 7, 32, {3, 3}, {.padding = {0, 1}}},
      {2, 64, 6, 6, 48, {1, 1}, {}},
      {2, 6, 11, 10, 9, {3, 2}, {.stride = {2, 3}, .padding = {1, 0}}},
      {1, 5, 12, 13, 7, {3, 3}, {.stride = {1, 2}, .padding = {2, 2}, .dilation = {2, 2}}},
      {2, 8, 9, 9, 12, {3, 3}, {.padding = {1, 1}, .groups = 4}},
      {2, 16, 9, 9, 16, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 16}},
      {1, 3, 23, 23, 16, {7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
      {3, 33, 5, 4, 35, {3, 3}, {.padding = {1, 1}}},
      {2, 16, 9, 9, 24, {1, 1}, {.stride = {2, 2}}},
      // Few channels, whose gradient has code of its own.
      {2, 3, 10, 9, 24, {4, 4}, {.stride = {2, 2}, .padding = {1, 1}}},
      {2, 1, 9, 9, 40, {3, 3}, {.padding = {1, 1}}},
      // Groups: depthwise of other kernels than 3 x 3, dilated, with more outputs than inputs, pointwise.
      {18, 20, 9, 8, 20, {5, 5}, {.padding = {2, 2}, .groups = 20}},
      {2, 70, 11, 9, 70, {3, 3}, {.stride = {2, 1}, .padding = {2, 2}, .dilation = {2, 3}, .groups = 70}},
      {2, 64, 8, 8, 64, {7, 7}, {.stride = {2, 2}, .padding = {3, 3}, .groups = 64}},
      {2, 3, 6, 6, 3, {5, 3}, {.padding = {0, 2}, .dilation = {1, 2}, .groups = 3}},
      {1, 6, 7, 7, 12, {3, 3}, {.padding = {1, 1}, .groups = 6}},
      {2, 24, 5, 5, 36, {1, 1}, {.groups = 3}},
      {2, 32, 6, 6, 32, {3, 3}, {.padding = {1, 1}, .groups = 8}},
  };
}

struct ConvParameter {
  DType dtype;
  Order x, y;
};

// Winograd's algorithm rounds in its transforms; its sums stay within a few times the direct form's error.
double conv_tolerance(DType dtype) { return dtype == DType::f32 ? 2e-5 : tolerance(dtype); }

// A bias may be f32 beside bf16; beside f16 it is tested in the same dtype.
DType bias_dtype(DType dtype) { return dtype == DType::bf16 ? DType::f32 : dtype; }

class Conv2d : public ::testing::TestWithParam<ConvParameter> {
 protected:
  Array image(const Shape& shape, Order order, std::uint32_t seed) const {
    return Array(shape, GetParam().dtype, order).randomize(seed);
  }
  static std::string label(const ConvCase& s) { return to_string(x_shape(s)) + " w " + to_string(w_shape(s)); }
};

TEST_P(Conv2d, ForwardMatchesTheSumWithAndWithoutBias) {
  for (const ConvCase& s : conv_cases()) {
    const Array x = image(x_shape(s), GetParam().x, 1), w = image(w_shape(s), GetParam().y, 2);
    const Array bias = Array({s.out}, bias_dtype(GetParam().dtype)).randomize(3);
    Array y(y_shape(s), GetParam().dtype, GetParam().y);
    std::vector<double> expected(static_cast<std::size_t>(y.numel()));
    const std::vector<double> xs = x.values(), ws = w.values();
    for_each_product(s, [&](auto i, auto j, auto k) { expected[k] += xs[i] * ws[j]; });
    run("conv2d", {x.view(), w.view()}, {y.view()}, s.attributes);
    expect_close(y.values(), expected, conv_tolerance(GetParam().dtype), label(s));

    const std::int64_t plane = y.shape()[2] * y.shape()[3];
    for (std::int64_t i = 0; i < y.numel(); ++i) expected[static_cast<std::size_t>(i)] += bias.at(i / plane % s.out);
    run("conv2d", {x.view(), w.view(), bias.view()}, {y.view()}, s.attributes);
    expect_close(y.values(), expected, conv_tolerance(GetParam().dtype), label(s) + " with bias");
  }
}

TEST_P(Conv2d, BackwardInputMatchesTheSum) {
  for (const ConvCase& s : conv_cases()) {
    const Array dy = image(y_shape(s), GetParam().y, 4), w = image(w_shape(s), GetParam().x, 5);
    Array dx(x_shape(s), GetParam().dtype, GetParam().x);
    std::vector<double> expected(static_cast<std::size_t>(dx.numel()));
    const std::vector<double> dys = dy.values(), ws = w.values();
    for_each_product(s, [&](auto i, auto j, auto k) { expected[i] += dys[k] * ws[j]; });
    run("conv2d_backward_input", {dy.view(), w.view()}, {dx.view()}, s.attributes);
    expect_close(dx.values(), expected, conv_tolerance(GetParam().dtype), label(s));
  }
}

TEST_P(Conv2d, BackwardWeightMatchesTheSumWithAndWithoutBias) {
  for (const ConvCase& s : conv_cases()) {
    const Array x = image(x_shape(s), GetParam().x, 6), dy = image(y_shape(s), GetParam().y, 7);
    Array dw(w_shape(s), GetParam().dtype, GetParam().y), dbias({s.out}, bias_dtype(GetParam().dtype));
    std::vector<double> expected(static_cast<std::size_t>(dw.numel())), sums(static_cast<std::size_t>(s.out));
    const std::vector<double> xs = x.values(), dys = dy.values();
    for_each_product(s, [&](auto i, auto j, auto k) { expected[j] += xs[i] * dys[k]; });
    const std::int64_t plane = dy.shape()[2] * dy.shape()[3];
    for (std::int64_t i = 0; i < dy.numel(); ++i) sums[static_cast<std::size_t>(i / plane % s.out)] += dy.at(i);

    run("conv2d_backward_weight", {dy.view(), x.view()}, {dw.view()}, s.attributes);
    expect_close(dw.values(), expected, conv_tolerance(GetParam().dtype), label(s));
    dw.fill(0);
    run("conv2d_backward_weight", {dy.view(), x.view()}, {dw.view(), dbias.view()}, s.attributes);
    expect_close(dw.values(), expected, conv_tolerance(GetParam().dtype), label(s) + " with bias");
    expect_close(dbias.values(), sums, conv_tolerance(GetParam().dtype), label(s) + " bias");
  }
}

TEST_P(Conv2d, AnEmptyBatchHasZeroGradients) {
  const ConvCase s{0, 4, 6, 6, 8, {3, 3}, {.padding = {1, 1}}};
  const Array x(x_shape(s), GetParam().dtype, GetParam().x), dy(y_shape(s), GetParam().dtype, GetParam().y);
  Array dw(w_shape(s), GetParam().dtype), dbias({s.out}, GetParam().dtype);
  run("conv2d", {x.view(), dw.fill(1).view()}, {dy.view()}, s.attributes);
  run("conv2d_backward_input", {dy.view(), dw.view()}, {x.view()}, s.attributes);
  run("conv2d_backward_weight", {dy.view(), x.view()}, {dw.view(), dbias.fill(1).view()}, s.attributes);
  EXPECT_EQ(dw.values(), std::vector<double>(static_cast<std::size_t>(dw.numel()), 0.0));
  EXPECT_EQ(dbias.values(), std::vector<double>(static_cast<std::size_t>(s.out), 0.0));
}

std::vector<ConvParameter> conv_parameters() {
  std::vector<ConvParameter> all;
  for (const DType dtype : kFloats) {
    for (const Order x : {Order::contiguous, Order::channels_last}) {
      for (const Order y : {Order::contiguous, Order::channels_last}) all.push_back({dtype, x, y});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Orders, Conv2d, testing::ValuesIn(conv_parameters()), parameter_name<ConvParameter>);

TEST(Conv2dErrors, ImagesThatAreDenseInNoOrderAreRefused) {
  const Array x({1, 2, 4, 4}, DType::f32, Strides{64, 32, 8, 2}), w({3, 2, 1, 1}, DType::f32);
  Array y({1, 3, 4, 4}, DType::f32);
  EXPECT_THROW(run("conv2d", {x.view(), w.view()}, {y.view()}, ops::Conv2dAttributes{}), InvalidArgument);
}

}  // namespace
}  // namespace ferry::test
