// The types that ops run in inside Autocast scopes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include <ferry/activations.h>
#include <ferry/attention.h>
#include <ferry/autocast.h>
#include <ferry/checkpoint.h>
#include <ferry/convolution.h>
#include <ferry/losses.h>
#include <ferry/nn.h>
#include <ferry/no_grad.h>
#include <ferry/normalization.h>
#include <ferry/ops.h>
#include <ferry/optim.h>
#include <ferry/profiler.h>
#include <ferry/recurrent.h>
#include "src/ops/op_list.h"
#include "src/trace/trace_json.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

class Autocasting : public OnBackend {
 protected:
  static Tensor leaf(const Shape& shape, DType dtype = DType::f32) {
    return uniform(shape, -1, 1, dtype).set_requires_grad();
  }
};

// How often `call` converts a tensor.
template <class F>
std::size_t casts_in(const F& call) {
  Profiler profiler;
  call();
  std::ostringstream text;
  profiler.write_trace(text);
  const trace::Trace trace = trace::read_json(text.str(), "trace");
  return static_cast<std::size_t>(
      std::ranges::count_if(trace.ops, [&](const trace::OpRecord& op) { return trace.string(op.name) == "copy"; }));
}

TEST_P(Autocasting, EachClassOfOpsGetsItsType) {
  const Tensor a = leaf({4, 4}), b = leaf({4, 4}), half = uniform({4, 4}, -1, 1, DType::bf16);
  for (const DType low : {DType::bf16, DType::f16}) {
    const Autocast autocast({.dtype = low});
    EXPECT_EQ(matmul(a, b).dtype(), low);
    EXPECT_EQ(linear(a, b, leaf({4})).dtype(), low);
    EXPECT_EQ(conv2d(leaf({1, 2, 4, 4}), leaf({2, 2, 3, 3})).dtype(), low);
    EXPECT_EQ(conv_transpose2d(leaf({1, 2, 4, 4}), leaf({2, 2, 3, 3})).dtype(), low);
    EXPECT_EQ(scaled_dot_product_attention(a, half, b, {.mask = zeros({4, 4})}).dtype(), low);
    EXPECT_EQ(lstm(leaf({3, 2, 4}), {zeros({1, 2, 5}), zeros({1, 2, 5})},
                   {{leaf({20, 4}), leaf({20, 5}), leaf({20}), leaf({20})}})
                  .y.dtype(),
              low);
    EXPECT_EQ(exp(half).dtype(), DType::f32);
    EXPECT_EQ(softmax(half, -1).dtype(), DType::f32);
    EXPECT_EQ(log_softmax(half, -1).dtype(), DType::f32);
    EXPECT_EQ(cross_entropy(matmul(a, b), zeros({4}, DType::i64)).dtype(), DType::f32);
    EXPECT_EQ(sum(half).dtype(), DType::f32);
    EXPECT_EQ(mean(half).dtype(), DType::f32);
    EXPECT_EQ(square_error(half, half).dtype(), DType::f32);
    EXPECT_EQ(softmax_cross_entropy(matmul(a, b), zeros({4}, DType::i64)).dtype(), DType::f32);
    EXPECT_EQ((half + a).dtype(), DType::f32);
    EXPECT_EQ(concat({half, a}, 0).dtype(), DType::f32);
    EXPECT_EQ((half + half).dtype(), DType::bf16);
    EXPECT_EQ((half + uniform({4, 4}, 0, 1, DType::f16)).dtype(), DType::f32);
    EXPECT_EQ(relu(half).dtype(), DType::bf16);
    EXPECT_EQ(relu(a).dtype(), DType::f32);
    Tensor target = zeros({4, 4}, DType::bf16);
    target.add_(uniform({4, 4}));
    EXPECT_EQ(target.dtype(), DType::bf16);
    EXPECT_EQ(matmul(leaf({2, 2}, DType::f64), leaf({2, 2}, DType::f64)).dtype(), DType::f64);
    EXPECT_EQ(arange(0, 4).dtype(), DType::i64);
    EXPECT_EQ(layer_norm(uniform({4, 2}, 0, 1, low), {2}, leaf({2}), leaf({2})).dtype(), low);
    EXPECT_EQ(batch_norm(uniform({4, 2}, 0, 1, low), leaf({2}), leaf({2}), {}, {}).dtype(), low);
  }
  EXPECT_EQ(matmul(a, b).dtype(), DType::f32);
}

TEST_P(Autocasting, ScopesNestAndEnd) {
  const Tensor a = leaf({2, 2});
  EXPECT_FALSE(autocast_enabled());
  {
    const Autocast outer;
    EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
    {
      const Autocast off({.enabled = false});
      EXPECT_FALSE(autocast_enabled());
      EXPECT_EQ(matmul(a, a).dtype(), DType::f32);
      const Autocast inner({.dtype = DType::f16});
      EXPECT_EQ(matmul(a, a).dtype(), DType::f16);
    }
    EXPECT_EQ(matmul(a, a).dtype(), DType::bf16);
    EXPECT_THROW(matmul(a, leaf({3, 3})), ShapeError);
  }
  EXPECT_FALSE(autocast_enabled());
  EXPECT_THROW(Autocast({.dtype = DType::f32}), InvalidArgument);
}

TEST_P(Autocasting, GradientsOfF32ParametersAreF32) {
  Tensor x = uniform({8, 4}), weight = leaf({4, 4}), bias = leaf({4});
  const auto loss = [&] { return mean(square(linear(x, weight, bias))); };
  Tensor low;
  {
    const Autocast autocast;
    low = loss();
  }
  EXPECT_EQ(low.dtype(), DType::f32);
  low.backward();
  const Tensor gradient = weight.grad();
  EXPECT_EQ(gradient.dtype(), DType::f32);
  const auto rounded = gradient.to_vector<float>();
  weight.zero_grad();
  loss().backward();
  const auto exact = weight.grad().to_vector<float>();
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], 0.02);
}

TEST_P(Autocasting, BackwardInsideTheScopeIsThatOutside) {
  const auto gradient = [](bool inside) {
    const Tensor x = full({3, 4}, 0.3), weight = full({4, 4}, 0.7).set_requires_grad();
    Tensor loss;
    {
      const Autocast autocast;
      loss = sum(tanh(linear(x, weight)) * 0.1);
      if (inside) loss.backward();
    }
    if (!inside) loss.backward();
    return weight.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST_P(Autocasting, AParameterIsCastOnceUntilItIsWritten) {
  const Tensor x = uniform({2, 4}, 0, 1, DType::bf16);
  Tensor weight = leaf({4, 4});
  const auto use = [&] { return linear(linear(x, weight), weight); };
  const Autocast autocast;
  EXPECT_EQ(casts_in([&] { use(); }), 1u);
  EXPECT_EQ(casts_in([&] { use(); }), 0u);
  {
    const NoGrad no_grad;
    weight.fill_(0.5);
  }
  EXPECT_EQ(casts_in([&] { use(); }), 1u);
  EXPECT_THAT(use().to_vector<bfloat16>(), ::testing::Not(::testing::IsEmpty()));
  const Autocast uncached({.caches_parameters = false});
  EXPECT_EQ(casts_in([&] { use(); }), 2u);
}

// A cast made while there was no graph leads nowhere, one that a backward has passed leads on.
TEST_P(Autocasting, CachedCastsServeSeveralBackwards) {
  const Tensor x = full({1, 2}, 1), weight = full({2, 2}, 0.5).set_requires_grad();
  const Autocast autocast;
  {
    const NoGrad no_grad;
    EXPECT_FALSE(linear(x, weight).requires_grad());
  }
  for (int pass = 0; pass < 3; ++pass) sum(linear(x, weight)).backward();
  EXPECT_THAT(weight.grad().to_vector<float>(), ::testing::Each(3));
}

TEST_P(Autocasting, RegionsComputedAgainGetTheirTypes) {
  const auto gradient = [](bool kept) {
    const Tensor x = full({3, 4}, 0.3).set_requires_grad(), weight = full({4, 4}, 0.7).set_requires_grad();
    const auto region = [&](const Tensor& in) { return tanh(linear(tanh(linear(in, weight)), weight)); };
    Tensor loss;
    {
      const Autocast autocast;
      loss = sum(kept ? region(x) : checkpoint(region, x)) + sum(linear(x, weight));
    }
    loss.backward();
    auto all = weight.grad().to_vector<float>();
    for (const float value : x.grad().to_vector<float>()) all.push_back(value);
    return all;
  };
  EXPECT_EQ(gradient(false), gradient(true));
}

INSTANTIATE_TEST_SUITE_P(All, Autocasting, each_backend(), backend_name);

// Add `.autocast = AutocastRule::…` to the op's schema; include/ferry/autocast.h says which class is which.
TEST(AutocastRules, EveryDifferentiableOpStatesItsClass) {
  for (const ops::OpSchema* schema : ops::all_ops()) {
    if (schema->gradient == nullptr) continue;
    EXPECT_NE(schema->autocast, ops::AutocastRule::unstated) << schema->name;
  }
}

}  // namespace
}  // namespace ferry::test
