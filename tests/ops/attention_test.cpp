// Attention beyond its values: dropout, memory order, threads, errors.
#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>

#include <ferry/attention.h>
#include "src/tensor/tensor_impl.h"
#include "tests/support/bad_call.h"
#include "tests/support/generators.h"

namespace ferry::test {
namespace {

Tensor leaf(const Shape& shape, Random& random, DType dtype = DType::f64) {
  return to_tensor(random_array(shape, -1, 1, dtype, random), dtype).set_requires_grad();
}

class Attention : public OnBackend {};

// The same from single ops: scores, weights, numbers of uniform().
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, double p) {
  const Tensor scores = matmul(q, transpose(k)) * (1 / std::sqrt(static_cast<double>(q.shape().back())));
  const Tensor e = exp(scores - max(scores, {-1}, true).detach());
  const Tensor weights = e / sum(e, {-1}, true);
  const Tensor kept = rsub(less(uniform(scores.shape()), full({1}, p)).to(q.dtype()), 1.0);
  return matmul(weights * kept * (1 / (1 - p)), v);
}

TEST_P(Attention, DropoutDrawsTheNumbersOfUniform) {
  constexpr double kP = 0.3;
  for (const std::int64_t keys : {5, 64, 300}) {
    SCOPED_TRACE(keys);
    Random random(1);
    const Tensor q = leaf({2, 3, 70, 4}, random), k = leaf({2, 3, keys, 4}, random), v = leaf({2, 3, keys, 5}, random);
    const auto run = [&](bool fused) {
      runtime_->manual_seed(7);
      const Tensor skipped = uniform({37});  // so that the numbers start inside a batch
      const Tensor y = fused ? scaled_dot_product_attention(q, k, v, {.dropout = kP}) : composed(q, k, v, kP);
      for (const Tensor* each : {&q, &k, &v}) const_cast<Tensor*>(each)->zero_grad();
      sum(y * y).backward();
      std::vector<Array> results{to_array(y)};
      for (const Tensor* each : {&q, &k, &v}) results.push_back(to_array(each->grad()));
      return results;
    };
    const auto fused = run(true), expected = run(false);
    for (std::size_t i = 0; i < fused.size(); ++i) {
      for (std::size_t j = 0; j < fused[i].values.size(); ++j) {
        ASSERT_NEAR(fused[i].values[j], expected[i].values[j], 1e-9) << "result " << i << ", element " << j;
      }
    }
  }
}

TEST_P(Attention, ResultsLieInTheOrderOfTheArguments) {
  Random random(2);
  const Tensor q = leaf({2, 7, 3, 4}, random), k = leaf({2, 9, 3, 4}, random), v = leaf({2, 9, 3, 5}, random);
  const auto heads = [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); };
  const Tensor y = scaled_dot_product_attention(heads(q), heads(k), heads(v));
  EXPECT_EQ(y.shape(), Shape({2, 3, 7, 5}));
  EXPECT_TRUE(heads(y).impl()->is_contiguous());
  sum(y).backward();
  for (const Tensor& each : {q, k, v}) EXPECT_EQ(each.grad().shape(), each.shape());
}

TEST_P(Attention, DoesNotDependOnThreads) {
  Random random(3);
  const Tensor q = leaf({3, 300, 16}, random, DType::f32), k = leaf({3, 300, 16}, random, DType::f32),
               v = leaf({3, 300, 16}, random, DType::f32);
  const auto run = [&] {
    const Tensor y = scaled_dot_product_attention(q, k, v, {.causal = true});
    for (const Tensor* each : {&q, &k, &v}) const_cast<Tensor*>(each)->zero_grad();
    sum(y * y).backward();
    std::vector<std::vector<float>> results{y.to_vector<float>()};
    for (const Tensor* each : {&q, &k, &v}) results.push_back(each->grad().to_vector<float>());
    return results;
  };
  const auto many = run();
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_EQ(run(), many);
}

TEST_P(Attention, KeepsNoScores) {
  constexpr std::int64_t kLength = 1024;
  Random random(4);
  const Device device = runtime_->default_device();
  const Tensor x = leaf({2, kLength, 32}, random, DType::f32);
  const Tensor q = x * 1.0;
  runtime_->synchronize();
  runtime_->reset_peak_memory(device);
  const Tensor y = scaled_dot_product_attention(q, q, q, {.causal = true, .dropout = 0.1});
  const std::int64_t result = y.numel() * size_of(DType::f32), scores = 2 * kLength * kLength * size_of(DType::f32);
  const auto used = [&] { return runtime_->memory_stats(device).peak_allocated.count; };
  EXPECT_LE(used(), 6 * result);
  y.backward(ones(y.shape()));
  runtime_->synchronize();
  EXPECT_LE(used(), 20 * result);
  EXPECT_LT(20 * result, scores);
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  const Tensor q = full({1, 2, 1}, 300), k = from_vector<float>({-300, 300, 299}, {1, 3, 1});
  const Tensor v = from_vector<float>({1, 2, 3}, {1, 3, 1});
  EXPECT_EQ(scaled_dot_product_attention(q, k, v).to_vector<float>(), std::vector<float>({2, 2}));
}

TEST_P(Attention, Errors) {
  const auto x = [](const Shape& shape) { return of(shape); };
  const std::string file = "attention_test.cpp";
  const auto attend = [=](const Shape& q, const Shape& k, const Shape& v, AttentionOptions options = {}) {
    return [=] { scaled_dot_product_attention(x(q), x(k), x(v), options); };
  };
  const std::string op = "scaled_dot_product_attention";
  expect_errors<ShapeError>(
      {{"rank", attend({3}, {4, 3}, {4, 3}), {op, "'q'", "[3]", "2 axes"}},
       {"depth", attend({2, 3}, {4, 5}, {4, 3}), {op, "'q'", "'k'", "[2, 3]", "[4, 5]"}},
       {"keys", attend({2, 3}, {4, 3}, {5, 3}), {op, "'k'", "'v'", "[4, 3]", "[5, 3]"}},
       {"leading", attend({2, 2, 3}, {3, 4, 3}, {1, 4, 3}), {op, "[2, 2, 3]", "[3, 4, 3]"}},
       {"mask",
        attend({2, 3}, {4, 3}, {4, 3}, {.mask = of({2, 3}, DType::boolean)}),
        {op, "'mask'", "[2, 3]", "[2, 4]"}},
       {"mask_rank", attend({2, 3}, {4, 3}, {4, 3}, {.mask = of({2, 2, 4})}), {op, "'mask'", "[2, 2, 4]", "[2, 4]"}}},
      file);
  expect_errors<InvalidArgument>(
      {{"undefined",
        [=] {
          scaled_dot_product_attention(x({2, 3}), {}, x({4, 3}));
        },
        {op, "'k'", "undefined"}},
       {"integers",
        [=] {
          scaled_dot_product_attention(of({2, 3}, DType::i64), x({4, 3}), x({4, 3}));
        },
        {op, "'q'"}},
       {"dtypes",
        [=] {
          scaled_dot_product_attention(x({2, 3}), of({4, 3}, DType::f64), x({4, 3}));
        },
        {op, "'k'"}},
       {"mask_dtype", attend({2, 3}, {4, 3}, {4, 3}, {.mask = of({2, 4}, DType::i32)}), {op, "'mask'", "i32"}},
       {"dropout", attend({2, 3}, {4, 3}, {4, 3}, {.dropout = 1}), {op, "dropout", "1"}}},
      file);
}

INSTANTIATE_TEST_SUITE_P(All, Attention, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
