// What calls of transposed convolution and resampling refuse, and properties of them that the table of cases does not
// show.
#include <functional>
#include <limits>

#include <ferry/convolution.h>
#include "tests/support/bad_call.h"

namespace ferry::test {
namespace {

class Resampling : public OnBackend {
 protected:
  template <class E>
  void expect(const std::vector<BadCall>& calls) {
    expect_errors<E>(calls, "convolution_test.cpp");
  }
};

TEST_P(Resampling, ShapesThatDoNotFit) {
  expect<ShapeError>({
      {"conv_transpose2d_channels",
       [] {
         conv_transpose2d(of({1, 2, 3, 3}), of({3, 2, 1, 1}));
       },
       {"conv_transpose2d", "[1, 2, 3, 3]", "[3, 2, 1, 1]"}},
      {"conv_transpose2d_small",
       [] {
         conv_transpose2d(of({1, 2, 1, 1}), of({2, 2, 1, 1}), {}, {.padding = {1, 1}});
       },
       {"conv_transpose2d", "would be"}},
      {"conv_transpose2d_bias",
       [] {
         conv_transpose2d(of({1, 2, 3, 3}), of({2, 3, 1, 1}), of({2}));
       },
       {"conv_transpose2d", "'bias'"}},
      {"upsample2d",
       [] {
         upsample2d(of({2, 3}));
       },
       {"upsample2d", "[2, 3]", "4 axes"}},
      {"conv_transpose2d_no_kernel",
       [] {
         conv_transpose2d(of({1, 2, 3, 3}), of({2, 2, 0, 1}));
       },
       {"conv_transpose2d", "no elements"}},
      {"conv_transpose2d_no_channels",
       [] {
         conv_transpose2d(of({1, 0, 3, 3}), of({0, 2, 1, 1}));
       },
       {"conv_transpose2d", "channel"}},
      {"upsample2d_huge",
       [] {
         upsample2d(of({1, 1, 2, 2}), {.scale = {1e300, 1}});
       },
       {"upsample2d"}},
      {"adaptive_avg_pool2d",
       [] {
         adaptive_avg_pool2d(of({1, 1, 3, 3}), {0, 1});
       },
       {"adaptive_avg_pool2d", "[1, 1, 0, 1]"}},
  });
}

TEST_P(Resampling, ArgumentsThatAreNotTaken) {
  expect<InvalidArgument>({
      {"conv_transpose2d_output_padding",
       [] {
         conv_transpose2d(of({1, 2, 3, 3}), of({2, 2, 1, 1}), {}, {.output_padding = {1, 0}});
       },
       {"conv_transpose2d", "output_padding 1"}},
      {"upsample2d_scale",
       [] {
         upsample2d(of({1, 1, 2, 2}), {.scale = {0, 1}});
       },
       {"upsample2d", "scale"}},
      {"upsample2d_size",
       [] {
         upsample2d(of({1, 1, 2, 2}), {.size = {3, 0}});
       },
       {"upsample2d", "size"}},
      {"upsample2d_integers",
       [] {
         upsample2d(of({1, 1, 2, 2}, DType::i32));
       },
       {"upsample2d", "'x'", "i32"}},
  });
}

TEST_P(Resampling, InfiniteNeighboursDoNotReachWholePositions) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = from_vector<float>({1, infinity, 2, 3}, {1, 1, 1, 4});
  const Tensor y = upsample2d(x, {.size = {1, 4}, .mode = UpsampleMode::bilinear});
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, infinity, 2, 3}));
}

TEST_P(Resampling, ImagesKeepTheirOrderInMemory) {
  const Tensor image = permute(ones({2, 4, 5, 3}), {0, 3, 1, 2});
  const Strides strides = image.strides();
  EXPECT_EQ(upsample2d(image, {.size = {4, 5}}).strides(), strides);
  EXPECT_EQ(adaptive_avg_pool2d(image, {4, 5}).strides(), strides);
}

TEST_P(Resampling, GradientsKeepTheImagesOrder) {
  const Tensor image = permute(ones({2, 4, 6, 3}), {0, 3, 1, 2}).detach();
  const auto gradient_of = [&](const std::function<Tensor(const Tensor&)>& op) {
    Tensor x = image.detach().set_requires_grad();
    const Tensor y = op(x);
    y.backward(ones(y.shape()));  // row-major
    return x.grad().strides();
  };
  EXPECT_EQ(gradient_of([](const Tensor& x) { return upsample2d(x); }), image.strides());
  EXPECT_EQ(gradient_of([](const Tensor& x) { return adaptive_avg_pool2d(x, {2, 2}); }), image.strides());
  EXPECT_EQ(gradient_of([](const Tensor& x) { return max_pool2d(x); }), image.strides());
  const Pool2dOptions whole{.kernel = {4, 6}};
  EXPECT_EQ(gradient_of([=](const Tensor& x) { return max_pool2d(x, whole); }), image.strides());
  EXPECT_EQ(gradient_of([=](const Tensor& x) { return avg_pool2d(x, whole); }), image.strides());
}

INSTANTIATE_TEST_SUITE_P(All, Resampling, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
