// Losses at their limits: ignored and illegal labels, far logits, dtypes beside 16-bit ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <ferry/losses.h>
#include "tests/support/bad_call.h"
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::Each;

class Losses : public OnBackend {
 protected:
  template <class E>
  void expect(const std::vector<BadCall>& calls) {
    expect_errors<E>(calls, "losses_test.cpp");
  }
};

Tensor labels_of(const std::vector<std::int64_t>& labels) { return from_vector(labels); }

TEST_P(Losses, IgnoredPositionsCountForNothing) {
  Random random(3);
  const Array x = random_array({4, 5}, -3, 3, DType::f32, random);
  Tensor logits = to_tensor(x, DType::f32).set_requires_grad();
  const Tensor loss = cross_entropy(logits, labels_of({2, -100, 0, -100}));
  Tensor counting = to_tensor({{2, 5},
                               {x.values[0], x.values[1], x.values[2], x.values[3], x.values[4], x.values[10],
                                x.values[11], x.values[12], x.values[13], x.values[14]}},
                              DType::f32);
  EXPECT_FLOAT_EQ(static_cast<float>(loss.item()),
                  static_cast<float>(softmax_cross_entropy(counting, labels_of({2, 0})).item()));
  loss.backward();
  const auto gradient = logits.grad().to_vector<float>();
  EXPECT_THAT(std::vector<float>(gradient.begin() + 5, gradient.begin() + 10), Each(0));
  EXPECT_THAT(std::vector<float>(gradient.begin() + 15, gradient.end()), Each(0));
  EXPECT_LT(gradient[2], 0);
}

TEST_P(Losses, MeanOfNothingIsNaN) {
  Tensor logits = ones({2, 3}).set_requires_grad();
  const Tensor loss = cross_entropy(logits, labels_of({-100, -100}));
  EXPECT_TRUE(std::isnan(loss.item()));
  EXPECT_EQ(cross_entropy(logits, labels_of({7, 7}), {.ignore_index = 7, .reduction = Reduction::sum}).item(), 0);
  EXPECT_TRUE(std::isnan(nll_loss(logits, labels_of({-100, -100})).item()));
}

TEST_P(Losses, LabelsThatAreNeitherIgnoredNorClasses) {
  const auto x = [] { return of({3, 5}); };
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}, std::int64_t{-100}, std::int64_t{1} << 40}) {
    const auto labels = [bad] { return labels_of({0, bad, 1}); };
    expect<InvalidArgument>({
        {"cross_entropy",
         [=] { cross_entropy(x(), labels(), {.ignore_index = 4}).item(); },
         {"cross_entropy", "labels[1] = " + std::to_string(bad), "0 to 4 or 4"}},
        {"nll_loss",
         [=] { nll_loss(x(), labels(), {.ignore_index = 3}).item(); },
         {"nll_loss", "labels[1] = " + std::to_string(bad), "log_probabilities [3, 5]"}},
    });
  }
}

TEST_P(Losses, ShapesAndOptionsTheyDoNotTake) {
  expect<ShapeError>({
      {"rank",
       [] {
         cross_entropy(of({3}), labels_of({0, 0, 0}));
       },
       {"cross_entropy", "f32 [3]"}},
      {"labels",
       [] {
         cross_entropy(of({3, 5}), labels_of({0, 0}));
       },
       {"cross_entropy", "[3, 5]", "[2]"}},
      {"positions",
       [] {
         nll_loss(of({3, 5, 2}), labels_of({0, 0, 1}));
       },
       {"nll_loss", "[3, 5, 2]", "[3]"}},
      {"weight",
       [] {
         cross_entropy(of({2, 5}), labels_of({0, 0}), {.weight = of({4})});
       },
       {"weight", "[4]", "[5]"}},
      {"targets", [] { binary_cross_entropy_with_logits(of({3}), of({1})); }, {"'targets'", "[3]", "[1]"}},
      {"pos_weight",
       [] { binary_cross_entropy_with_logits(of({3}), of({3}), of({2})); },
       {"'pos_weight'", "[3]", "[2]"}},
      {"pos_weight_wider",
       [] {
         binary_cross_entropy_with_logits(of({3}), of({3}), of({2, 3}));
       },
       {"'pos_weight'", "[2, 3]"}},
  });
  expect<InvalidArgument>({
      {"smoothing",
       [] {
         cross_entropy(of({2, 5}), labels_of({0, 0}), {.label_smoothing = 1.5});
       },
       {"cross_entropy", "label_smoothing is 1.5"}},
      {"nll_smoothing",
       [] {
         nll_loss(of({2, 5}), labels_of({0, 0}), {.label_smoothing = -0.1});
       },
       {"nll_loss", "label_smoothing is -0.1"}},
      {"float_labels",
       [] {
         cross_entropy(of({2, 5}), of({2}));
       },
       {"'labels'", "i64 or i32"}},
      {"undefined", [] { cross_entropy({}, labels_of({0})); }, {"'logits'", "undefined"}},
      {"undefined_labels",
       [] {
         nll_loss(of({2, 5}), {});
       },
       {"'labels'", "undefined"}},
      {"undefined_targets", [] { binary_cross_entropy_with_logits(of({2}), {}); }, {"'targets'", "undefined"}},
      {"dtypes", [] { binary_cross_entropy_with_logits(of({2}), of({2}, DType::f64)); }, {"'targets'", "one dtype"}},
  });
}

TEST_P(Losses, FarLogitsNeitherOverflowNorVanish) {
  Tensor x = from_vector<float>({1e4f, -1e4f, 30, -30}).set_requires_grad();
  const Tensor loss = binary_cross_entropy_with_logits(x, from_vector<float>({1, 0, 1, 0}), {}, Reduction::none);
  const auto values = loss.to_vector<float>();
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 0);
  EXPECT_NEAR(values[2], std::exp(-30.0), std::exp(-30.0) * 1e-5);
  EXPECT_NEAR(values[3], std::exp(-30.0), std::exp(-30.0) * 1e-5);
  loss.backward(ones({4}));
  const auto gradient = x.grad().to_vector<float>();
  EXPECT_NEAR(gradient[2], -std::exp(-30.0), std::exp(-30.0) * 1e-5);
  EXPECT_NEAR(gradient[3], std::exp(-30.0), std::exp(-30.0) * 1e-5);
  EXPECT_EQ(binary_cross_entropy_with_logits(x, 1 - from_vector<float>({1, 0, 1, 0}), {}, Reduction::none)
                .to_vector<float>()[0],
            1e4f);
}

TEST_P(Losses, SixteenBitInputsGiveThirtyTwoBitLosses) {
  Tensor x = ones({2, 3}, DType::bf16).set_requires_grad();
  const Tensor loss = cross_entropy(x, labels_of({0, 1}), {.weight = full({3}, 0.5)});
  EXPECT_EQ(loss.dtype(), DType::f32);
  EXPECT_NEAR(loss.item(), std::log(3.0), 1e-6);
  loss.backward();
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
  Tensor z = zeros({2}, DType::f16).set_requires_grad();
  const Tensor binary = binary_cross_entropy_with_logits(z, ones({2}, DType::f16), full({1}, 2));
  EXPECT_NEAR(binary.item(), 2 * std::log(2.0), 1e-6);
  binary.backward();
  EXPECT_EQ(z.grad().to_vector<float16>()[0].bits, float16(-0.5f).bits);
}

// A gradient for each position that is neither one number nor dense.
TEST_P(Losses, GradientsOfAnyStrides) {
  Random random(5);
  const Array x = random_array({3, 4, 2}, -2, 2, DType::f64, random);
  const Array dloss = random_array({2, 3}, -1, 1, DType::f64, random);
  const Tensor labels = reshape(labels_of({0, 3, 1, 2, 2, 0}), {3, 2});
  Tensor strided = to_tensor(x, DType::f64).set_requires_grad(), dense = to_tensor(x, DType::f64).set_requires_grad();
  const Tensor gradient = to_tensor(dloss, DType::f64);
  cross_entropy(strided, labels, {.reduction = Reduction::none}).backward(transpose(gradient));
  cross_entropy(dense, labels, {.reduction = Reduction::none}).backward(transpose(gradient) * 1.0);
  EXPECT_EQ(to_array(strided.grad()).values, to_array(dense.grad()).values);
}

INSTANTIATE_TEST_SUITE_P(All, Losses, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
