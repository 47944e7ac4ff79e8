// ResNet-18, BERT-base and the LSTM language model beside libtorch, with the same weights and inputs.
#include <gtest/gtest.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <ferry/models.h>
#include <ferry/no_grad.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using Peer = std::map<std::string, torch::Tensor>;

torch::Tensor to_torch(const Tensor& tensor) {
  std::vector<std::int64_t> shape(tensor.shape().begin(), tensor.shape().end());
  if (tensor.dtype() == DType::i64) return torch::tensor(tensor.to_vector<std::int64_t>()).reshape(shape);
  return torch::tensor(tensor.to_vector<float>()).reshape(shape);
}

// The model's parameters as leaves of libtorch, by name.
Peer peer_of(const models::Model& model) {
  Peer peer;
  for (const nn::NamedTensor& each : model.parameters()) {
    peer[each.name] = to_torch(each.tensor).set_requires_grad(true);
  }
  return peer;
}

// Compares losses, and returns the largest error of a gradient relative to 1e-4 of it.
double worst_gradient(models::Model& model, const models::Batch& batch, Peer& peer, const torch::Tensor& peer_loss) {
  const Tensor loss = model.loss(batch);
  loss.backward();
  peer_loss.backward();
  EXPECT_NEAR(loss.item(), peer_loss.item<double>(), 1e-4 * std::abs(peer_loss.item<double>()));
  double largest = 0, worst = 0;
  for (const auto& [name, parameter] : peer) largest = std::max(largest, parameter.grad().norm().item<double>());
  for (const nn::NamedTensor& each : model.parameters()) {
    const torch::Tensor expected = peer[each.name].grad();
    const double error = (to_torch(each.tensor.grad()) - expected).norm().item<double>();
    worst = std::max(worst, error / (1e-4 * std::max(expected.norm().item<double>(), 1e-2 * largest)));
  }
  model.zero_grad();
  return worst;
}

class LibtorchAgreement : public ::testing::Test {
 protected:
  CheckedRuntime runtime_{cpu_backend()};
};

torch::Tensor conv_norm(Peer& p, const torch::Tensor& x, const std::string& conv, const std::string& norm,
                        std::int64_t stride, std::int64_t padding) {
  const torch::Tensor y = torch::conv2d(x, p[conv + ".weight"], {}, stride, padding);
  return torch::batch_norm(y, p[norm + ".weight"], p[norm + ".bias"], {}, {}, true, 0.1, 1e-5, false);
}

torch::Tensor resnet18(Peer& p, const torch::Tensor& pictures) {
  torch::Tensor x = torch::relu(conv_norm(p, pictures, "conv1", "bn1", 2, 3));
  x = torch::max_pool2d(x, 3, 2, 1);
  for (int stage = 1; stage <= 4; ++stage) {
    for (int block = 0; block < 2; ++block) {
      const std::string name = "layer" + std::to_string(stage) + "." + std::to_string(block);
      const bool projects = stage > 1 && block == 0;
      const std::int64_t stride = projects ? 2 : 1;
      const torch::Tensor y = torch::relu(conv_norm(p, x, name + ".conv1", name + ".bn1", stride, 1));
      const torch::Tensor shortcut =
          projects ? conv_norm(p, x, name + ".downsample.0", name + ".downsample.1", stride, 0) : x;
      x = torch::relu(conv_norm(p, y, name + ".conv2", name + ".bn2", 1, 1) + shortcut);
    }
  }
  return torch::linear(x.mean({2, 3}), p["fc.weight"], p["fc.bias"]);
}

// One batch of several must have no activation within rounding of the kink of relu, where the two take different sides.
TEST_F(LibtorchAgreement, ResNet18) {
  const auto model = models::make("resnet18", {.image_size = 64});
  double best = std::numeric_limits<double>::infinity();
  for (std::uint64_t seed = 1; seed <= 8 && best > 1; ++seed) {
    const models::Batch batch = model->random_batch(4, seed);
    Peer peer = peer_of(*model);
    const torch::Tensor scores = resnet18(peer, to_torch(batch.inputs[0]));
    const torch::Tensor loss = torch::nn::functional::cross_entropy(scores, to_torch(batch.targets));
    best = std::min(best, worst_gradient(*model, batch, peer, loss));
  }
  EXPECT_LE(best, 1);
}

torch::Tensor dense(Peer& p, const torch::Tensor& x, const std::string& name) {
  return torch::linear(x, p[name + ".weight"], p[name + ".bias"]);
}

torch::Tensor norm(Peer& p, const torch::Tensor& x, const std::string& name) {
  return torch::layer_norm(x, {x.size(-1)}, p[name + ".weight"], p[name + ".bias"], 1e-12);
}

torch::Tensor bert_layer(Peer& p, const torch::Tensor& x, const std::string& name, std::int64_t heads) {
  const std::int64_t samples = x.size(0), length = x.size(1), features = x.size(2);
  const auto projected = [&](const std::string& part) {
    return dense(p, x, name + ".attention.self." + part).view({samples, length, heads, -1}).transpose(1, 2);
  };
  const torch::Tensor q = projected("query"), k = projected("key"), v = projected("value");
  const double scale = std::sqrt(static_cast<double>(features / heads));
  const torch::Tensor weights = torch::softmax(torch::matmul(q, k.transpose(2, 3)) / scale, -1);
  const torch::Tensor mixed = torch::matmul(weights, v).transpose(1, 2).reshape({samples, length, features});
  const torch::Tensor y =
      norm(p, dense(p, mixed, name + ".attention.output.dense") + x, name + ".attention.output.LayerNorm");
  const torch::Tensor hidden = torch::gelu(dense(p, y, name + ".intermediate.dense"));
  return norm(p, dense(p, hidden, name + ".output.dense") + y, name + ".output.LayerNorm");
}

TEST_F(LibtorchAgreement, BertBase) {
  const auto model = models::make("bert-base", {.sequence_length = 32});
  model->eval();  // no dropout
  const models::Batch batch = model->random_batch(2, 3);
  Peer p = peer_of(*model);
  const torch::Tensor words = p["embeddings.word_embeddings.weight"];
  torch::Tensor x = torch::embedding(words, to_torch(batch.inputs[0])) +
                    torch::embedding(p["embeddings.token_type_embeddings.weight"], to_torch(batch.inputs[1])) +
                    p["embeddings.position_embeddings.weight"].slice(0, 0, 32);
  x = norm(p, x, "embeddings.LayerNorm");
  for (int layer = 0; layer < 12; ++layer) x = bert_layer(p, x, "encoder.layer." + std::to_string(layer), 12);
  const torch::Tensor masked = x.reshape({-1, x.size(2)}).index_select(0, to_torch(batch.inputs[2]));
  const torch::Tensor pooled = torch::tanh(dense(p, x.select(1, 0), "pooler.dense"));
  namespace F = torch::nn::functional;
  const torch::Tensor loss = F::cross_entropy(torch::matmul(masked, words.t()), to_torch(batch.targets)) +
                             F::cross_entropy(pooled.slice(1, 0, 2), to_torch(batch.inputs[3]));
  EXPECT_LE(worst_gradient(*model, batch, p, loss), 1);
}

TEST_F(LibtorchAgreement, Lstm) {
  const auto model = models::make("lstm", {.classes = 500, .sequence_length = 10});
  model->eval();  // no dropout
  const models::Batch batch = model->random_batch(3, 3);
  Peer p = peer_of(*model);
  const torch::Tensor tokens = to_torch(batch.inputs[0]).t();
  const torch::Tensor x = torch::embedding(p["encoder.weight"], tokens);
  const torch::Tensor no_bias = torch::zeros_like(p["rnn.bias_ih_l0"]).detach();
  std::vector<torch::Tensor> weights;
  for (const std::string layer : {"l0", "l1"}) {
    weights.insert(weights.end(),
                   {p["rnn.weight_ih_" + layer], p["rnn.weight_hh_" + layer], p["rnn.bias_ih_" + layer], no_bias});
  }
  const torch::Tensor state = torch::zeros({2, 3, 1500});
  const torch::Tensor y = std::get<0>(torch::lstm(x, {state, state}, weights, true, 2, 0.0, false, false, false));
  const torch::Tensor scores = dense(p, y.reshape({-1, 1500}), "decoder");
  const torch::Tensor next = to_torch(batch.targets).t().reshape({-1});
  EXPECT_LE(worst_gradient(*model, batch, p, torch::nn::functional::cross_entropy(scores, next)), 1);
}

}  // namespace
}  // namespace ferry::test
