// What layers add to the ops that they call: parameters, names, modes, placement.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <ferry/nn.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LayersTest : public OnBackend {
 protected:
  static std::vector<std::string> names_of(const std::vector<nn::NamedTensor>& tensors) {
    std::vector<std::string> names;
    for (const nn::NamedTensor& each : tensors) names.push_back(each.name);
    return names;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, LayersTest, ::testing::Values(cpu_backend(), sim_backend()), backend_name);

TEST_P(LayersTest, ParametersHaveTheNamesOfOtherTools) {
  EXPECT_THAT(names_of(nn::LayerNorm({4, 3}).parameters()), ElementsAre("weight", "bias"));
  EXPECT_THAT(names_of(nn::GroupNorm(2, 4).parameters()), ElementsAre("weight", "bias"));
  EXPECT_THAT(names_of(nn::MultiheadAttention(8, 2).parameters()),
              ElementsAre("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"));
  EXPECT_THAT(names_of(nn::MultiheadAttention(8, 2, {.bias = false}).parameters()),
              ElementsAre("in_proj_weight", "out_proj.weight"));
  EXPECT_THAT(names_of(nn::Gru(3, 4, {.bidirectional = true}).parameters()),
              ElementsAre("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
                          "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"));
  EXPECT_THAT(names_of(nn::Lstm(3, 4, {.layers = 2, .bias = nn::RecurrentBias::one}).parameters()),
              ElementsAre("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "weight_ih_l1", "weight_hh_l1", "bias_ih_l1"));
}

TEST_P(LayersTest, ResultsHaveTheShapesOfTheOps) {
  const Tensor image = normal({2, 4, 6, 6});
  EXPECT_EQ(nn::ConvTranspose2d(4, 3, {2, 2}, {.stride = {2, 2}})(image).shape(), (Shape{2, 3, 12, 12}));
  EXPECT_EQ(nn::AvgPool2d({})(image).shape(), (Shape{2, 4, 3, 3}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d({2, 5})(image).shape(), (Shape{2, 4, 2, 5}));
  EXPECT_EQ(nn::Upsample2d({})(image).shape(), (Shape{2, 4, 12, 12}));
  EXPECT_EQ(nn::Flatten()(image).shape(), (Shape{2, 144}));
  EXPECT_EQ(nn::GroupNorm(2, 4)(image).shape(), image.shape());
  const Tensor steps = normal({5, 2, 3});
  EXPECT_EQ(nn::Lstm(3, 4, {.layers = 2, .bidirectional = true})(steps).shape(), (Shape{5, 2, 8}));
  nn::Gru gru(3, 4);
  EXPECT_EQ(gru(steps, Tensor()).h.shape(), (Shape{1, 2, 4}));
}

TEST_P(LayersTest, AttentionIsThatOfItsFormula) {
  nn::MultiheadAttention attention(6, 2);
  const Tensor query = normal({2, 3, 6}), key = normal({2, 4, 6});
  const auto heads = [&](const Tensor& x, std::int64_t part) {
    const Tensor y = linear(x, narrow(attention.in_proj_weight, 0, 6 * part, 6));
    return transpose(reshape(y, {2, x.size(1), 2, 3}), 1, 2);
  };
  const auto expected = [&](const Tensor& q_of, const Tensor& kv_of) {
    const Tensor scores = matmul(heads(q_of, 0), transpose(heads(kv_of, 1))) * (1 / std::sqrt(3.0));
    const Tensor mixed = reshape(transpose(matmul(softmax(scores), heads(kv_of, 2)), 1, 2), q_of.shape());
    return linear(mixed, attention.state_dict()[2].tensor).to_vector<float>();
  };
  const auto near = [](const std::vector<float>& values) {
    return ::testing::Pointwise(::testing::FloatNear(1e-5F), values);
  };
  EXPECT_THAT(attention(query, key, key).to_vector<float>(), near(expected(query, key)));
  EXPECT_THAT(attention(query).to_vector<float>(), near(expected(query, query)));
  EXPECT_THROW(nn::MultiheadAttention(6, 4), InvalidArgument);
}

TEST_P(LayersTest, DropoutActsInTrainingOnly) {
  nn::Dropout dropout(0.5);
  const Tensor x = ones({1000});
  EXPECT_THAT(dropout(x).to_vector<float>(), ::testing::Contains(0));
  dropout.eval();
  EXPECT_THAT(dropout(x).to_vector<float>(), Each(1));
  EXPECT_THROW(nn::Dropout(1.5), InvalidArgument);
}

TEST_P(LayersTest, ModulesAreListedWithTheirPathsAndRunWhereTheyArePlaced) {
  const auto inner = std::make_shared<nn::Sequential>(
      std::vector<std::shared_ptr<nn::Module>>{std::make_shared<nn::Linear>(3, 3), std::make_shared<nn::Relu>()});
  nn::Sequential outer(std::vector<nn::NamedModule>{{"body", inner}, {"head", std::make_shared<nn::Linear>(3, 2)}});
  std::vector<std::string> names;
  for (const nn::NamedModule& each : outer.modules()) names.push_back(each.name);
  EXPECT_THAT(names, ElementsAre("body", "body.0", "body.1", "head"));
  const Tensor x = normal({2, 3});
  const Device usual = outer(x).device();
  EXPECT_EQ(outer.run(0, x).device(), usual);
  inner->place_on(cpu::device);
  EXPECT_TRUE(outer.run(0, x).device().is_cpu());
  EXPECT_EQ(outer(x).device(), usual);
}

TEST_P(LayersTest, BadExtentsNameTheLayer) {
  EXPECT_THAT(message_of<InvalidArgument>([] { nn::GroupNorm(3, 4); }), HasSubstr("GroupNorm"));
  EXPECT_THAT(message_of<InvalidArgument>([] { nn::LayerNorm({4, 0}); }), HasSubstr("LayerNorm"));
  EXPECT_THAT(message_of<InvalidArgument>([] {
                nn::ConvTranspose2d(3, 4, {2, 2}, {.groups = 2});
              }),
              HasSubstr("ConvTranspose2d"));
  EXPECT_THROW(nn::Lstm(0, 4), InvalidArgument);
}

}  // namespace
}  // namespace ferry::test
