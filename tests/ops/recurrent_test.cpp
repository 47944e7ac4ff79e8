// Recurrent layers beyond their values: pieces of a sequence, dropout, threads, errors.
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <ferry/autocast.h>
#include <ferry/no_grad.h>
#include <ferry/recurrent.h>
#include "tests/support/bad_call.h"
#include "tests/support/generators.h"

namespace ferry::test {
namespace {

constexpr std::int64_t kSteps = 6, kRows = 3, kFeatures = 8, kHidden = 40;

Tensor random_leaf(const Shape& shape, Random& random, DType dtype = DType::f32) {
  return to_tensor(random_array(shape, -1, 1, dtype, random), dtype).set_requires_grad();
}

RecurrentWeights random_weights(std::int64_t gates, std::int64_t features, Random& random, DType dtype = DType::f32) {
  const std::int64_t rows = gates * kHidden;
  return {random_leaf({rows, features}, random, dtype), random_leaf({rows, kHidden}, random, dtype),
          random_leaf({rows}, random, dtype), random_leaf({rows}, random, dtype)};
}

class Recurrent : public OnBackend {};

// Also in 16 bits: a state that is passed on is the one that the next step would have begun with.
TEST_P(Recurrent, PiecesOfASequenceGiveWhatItGives) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Random random(1);
    const NoGrad no_grad;
    const Tensor x = random_leaf({kSteps, kRows, kFeatures}, random, dtype);
    const std::vector<RecurrentWeights> weights{random_weights(4, kFeatures, random, dtype)};
    const LstmResult whole = lstm(x, {}, weights);
    const LstmResult first = lstm(narrow(x, 0, 0, 2), {}, weights);
    const LstmResult rest = lstm(narrow(x, 0, 2, kSteps - 2), first.state, weights);
    EXPECT_EQ(to_array(rest.state.h).values, to_array(whole.state.h).values) << name_of(dtype);
    EXPECT_EQ(to_array(rest.state.c).values, to_array(whole.state.c).values) << name_of(dtype);
    EXPECT_EQ(to_array(concat({first.y, rest.y}, 0)).values, to_array(whole.y).values) << name_of(dtype);
    LstmState state;
    for (std::int64_t t = 0; t < kSteps; ++t) state = lstm_cell(select(x, 0, t), state, weights[0]);
    for (std::size_t i = 0; i < to_array(state.h).values.size(); ++i) {
      EXPECT_NEAR(to_array(state.h).values[i], to_array(whole.state.h).values[i], rounding(dtype, 4));
    }
  }
}

TEST_P(Recurrent, DropoutIsBetweenLayersAndInTrainingOnly) {
  Random random(2);
  const NoGrad no_grad;
  const Tensor x = random_leaf({kSteps, kRows, kFeatures}, random);
  const std::vector<RecurrentWeights> weights{random_weights(3, kFeatures, random), random_weights(3, kHidden, random)};
  const auto run = [&](std::int64_t layers, double dropout, bool training) {
    const std::vector<RecurrentWeights> used(weights.begin(), weights.begin() + layers);
    return gru(x, {}, used, {.layers = layers, .dropout = dropout, .training = training}).y.to_vector<float>();
  };
  EXPECT_EQ(run(1, 0.5, true), run(1, 0, true));
  EXPECT_EQ(run(2, 0.5, false), run(2, 0, true));
  EXPECT_NE(run(2, 0.5, true), run(2, 0, true));
  runtime_->manual_seed(3);
  const auto dropped = run(2, 0.5, true);
  runtime_->manual_seed(3);
  EXPECT_EQ(run(2, 0.5, true), dropped);
}

TEST_P(Recurrent, DoesNotDependOnThreads) {
  Random random(3);
  const Tensor x = random_leaf({kSteps, 200, kFeatures}, random);
  std::vector<RecurrentWeights> weights{random_weights(4, kFeatures, random)};
  const auto run = [&] {
    const LstmResult result = lstm(x, {}, weights);
    const_cast<Tensor&>(x).zero_grad();
    for (Tensor* each : {&weights[0].w_ih, &weights[0].w_hh, &weights[0].b_ih}) each->zero_grad();
    (sum(result.y * result.y) + sum(result.state.c)).backward();
    std::vector<std::vector<float>> results{result.y.to_vector<float>(), x.grad().to_vector<float>()};
    for (const Tensor& each : {weights[0].w_ih, weights[0].w_hh, weights[0].b_ih}) {
      results.push_back(each.grad().to_vector<float>());
    }
    return results;
  };
  const auto many = run();
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_EQ(run(), many);
}

TEST_P(Recurrent, AutocastTakesWeightsInF32) {
  Random random(5);
  const Tensor x = random_leaf({kSteps, kRows, kFeatures}, random, DType::bf16);
  const RecurrentWeights weights = random_weights(4, kFeatures, random);
  const Autocast autocast;
  const LstmResult result = lstm(x, {}, {weights});
  EXPECT_EQ(result.y.dtype(), DType::bf16);
  sum(result.y).backward();
  EXPECT_EQ(weights.w_hh.grad().dtype(), DType::f32);
  EXPECT_EQ(x.grad().dtype(), DType::bf16);
}

TEST_P(Recurrent, NoSteps) {
  Random random(4);
  const RecurrentWeights weights = random_weights(4, kFeatures, random);
  const Tensor h = random_leaf({1, kRows, kHidden}, random), c = random_leaf({1, kRows, kHidden}, random);
  const LstmResult result = lstm(zeros({0, kRows, kFeatures}), {h, c}, {weights});
  EXPECT_EQ(result.y.shape(), Shape({0, kRows, kHidden}));
  EXPECT_EQ(result.state.h.to_vector<float>(), h.to_vector<float>());
  (sum(result.state.h) + sum(result.state.c * 2)).backward();
  EXPECT_EQ(h.grad().to_vector<float>(), std::vector<float>(kRows * kHidden, 1));
  EXPECT_EQ(c.grad().to_vector<float>(), std::vector<float>(kRows * kHidden, 2));
}

TEST_P(Recurrent, Errors) {
  const std::string file = "recurrent_test.cpp";
  const auto weights = [](std::int64_t gates, std::int64_t features, std::int64_t hidden) {
    return RecurrentWeights{of({gates * hidden, features}), of({gates * hidden, hidden}), of({gates * hidden}),
                            of({gates * hidden})};
  };
  const auto x = [] { return of({2, 3, 5}); };
  RecurrentWeights bad_bias = weights(4, 5, 6);
  bad_bias.b_hh = of({6});
  expect_errors<ShapeError>(
      {{"rank",
        [=] {
          lstm(of({3, 5}), {}, {weights(4, 5, 6)});
        },
        {"lstm", "'x'", "[3, 5]", "[T, N, I]"}},
       {"features", [=] { lstm(x(), {}, {weights(4, 4, 6)}); }, {"lstm", "'w_ih", "[24, 4]", "[24, 5]"}},
       {"gates", [=] { gru(x(), {}, {weights(4, 5, 6)}); }, {"gru", "'w_hh", "[24, 6]", "[18, 6]"}},
       {"bias", [=] { lstm(x(), {}, {bad_bias}); }, {"lstm", "'b_hh", "[6]", "[24]"}},
       {"second_layer",
        [=] {
          lstm(x(), {}, {weights(4, 5, 6), weights(4, 5, 6)}, {.layers = 2});
        },
        {"lstm", "weights 1", "[24, 5]", "[24, 6]"}},
       {"hidden",
        [=] {
          lstm(x(), {}, {weights(4, 5, 6), weights(4, 5, 7)}, {.bidirectional = true});
        },
        {"lstm", "weights 1", "7", "6"}},
       {"state",
        [=] {
          gru(x(), of({1, 2, 6}), {weights(3, 5, 6)});
        },
        {"gru", "'h'", "[1, 2, 6]", "[1, 3, 6]"}},
       {"cell", [=] { lstm_cell(x(), {}, weights(4, 5, 6)); }, {"lstm_cell", "'x'", "[N, I]"}},
       {"cell_state",
        [=] {
          gru_cell(of({3, 5}), of({2, 6}), weights(3, 5, 6));
        },
        {"gru_cell", "'h'", "[3, 6]"}}},
      file);
  expect_errors<InvalidArgument>(
      {{"count", [=] { lstm(x(), {}, {weights(4, 5, 6)}, {.layers = 2}); }, {"lstm", "1 weights", "2 layers"}},
       {"undefined", [=] { lstm({}, {}, {weights(4, 5, 6)}); }, {"lstm", "'x'", "undefined"}},
       {"no_weight", [=] { gru(x(), {}, {RecurrentWeights{}}); }, {"gru", "'w_hh'", "undefined"}},
       {"half_state",
        [=] {
          lstm(x(), {of({1, 3, 6}), {}}, {weights(4, 5, 6)});
        },
        {"lstm", "h and c"}},
       {"dropout", [=] { lstm(x(), {}, {weights(4, 5, 6)}, {.dropout = 2}); }, {"lstm", "dropout 2"}},
       {"dtype",
        [=] {
          gru(of({2, 3, 5}, DType::f64), {}, {weights(3, 5, 6)});
        },
        {"f64", "f32", "one dtype"}}},
      file);
}

INSTANTIATE_TEST_SUITE_P(All, Recurrent, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
