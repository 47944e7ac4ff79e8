#include "tests/support/generators_program.h"

#include <ferry/ops.h>

namespace ferry::test {
namespace {

using Op = Tensor (*)(const Tensor& a, const Tensor& b);

constexpr std::int64_t kRows = RandomProgram::kRows, kColumns = RandomProgram::kColumns;

// Each keeps values of about the size of 1.
const std::vector<Op>& program_ops() {
  static const std::vector<Op> kOps = {
      [](const Tensor& a, const Tensor& b) { return (a + b) * 0.7; },
      [](const Tensor& a, const Tensor& b) { return a - b * 0.3; },
      [](const Tensor& a, const Tensor& b) { return a * b; },
      [](const Tensor& a, const Tensor& b) { return a / (square(b) + 1.0); },
      [](const Tensor& a, const Tensor& b) { return maximum(a, b); },
      [](const Tensor& a, const Tensor& b) { return square_error(a, b) * 0.2; },
      [](const Tensor& a, const Tensor&) { return tanh(a); },
      [](const Tensor& a, const Tensor&) { return sigmoid(a) - 0.5; },
      [](const Tensor& a, const Tensor&) { return exp(a * 0.1); },
      [](const Tensor& a, const Tensor&) { return relu(a) + abs(a) * 0.1; },
      [](const Tensor& a, const Tensor&) { return l2_normalize(a); },
      [](const Tensor& a, const Tensor& b) { return matmul(matmul(a, transpose(b)) * 0.1, b); },
      [](const Tensor& a, const Tensor& b) { return linear(a, matmul(transpose(b), b) * 0.1); },
      [](const Tensor& a, const Tensor&) { return a - mean(a, {1}, true); },
      [](const Tensor& a, const Tensor& b) { return a * 0.5 + max(b, {0}, true) * 0.5; },
      [](const Tensor& a, const Tensor& b) {
        return a + expand(reshape(sum(b, {1}) * 0.1, {kRows, 1}), {kRows, kColumns});
      },
      [](const Tensor& a, const Tensor&) {
        return reshape(transpose(a), {kRows, kColumns});
      },
      [](const Tensor& a, const Tensor& b) {
        return concat({narrow(a, 1, 0, 2), narrow(b, 1, 2, kColumns - 2)}, 1);
      },
      [](const Tensor& a, const Tensor& b) {
        return concat({slice(a, {0}, {0}, {kRows}, {2}), crop(b, {kRows / 2, kColumns}, {1, 0})}, 0);
      },
      [](const Tensor& a, const Tensor&) {
        return embedding(a, from_vector<std::int64_t>({3, 0, 3, 1}));
      },
      [](const Tensor& a, const Tensor& b) {
        Tensor y = a * 0.5;
        return y.add_(select(b, 0, 1));
      },
  };
  return kOps;
}

}  // namespace

RandomProgram::RandomProgram(std::uint64_t seed, std::size_t steps) : seed_(seed) {
  Random random(seed);
  for (std::size_t i = 0; i < steps; ++i) {
    steps_.push_back({random() % program_ops().size(), random() % (kLeaves + i), random() % (kLeaves + i)});
  }
}

std::vector<Array> RandomProgram::leaves(DType dtype) const {
  Random random(seed_ + 1);
  std::vector<Array> result;
  for (std::size_t i = 0; i < kLeaves; ++i) result.push_back(random_array({kRows, kColumns}, -1, 1, dtype, random));
  return result;
}

Tensor RandomProgram::run(const std::vector<Tensor>& leaves, const Around& around) const {
  std::vector<Tensor> values = leaves;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const auto body = [&] { values.push_back(program_ops()[step.op](values[step.a], values[step.b])); };
    if (around) {
      around(i, body);
    } else {
      body();
    }
  }
  Tensor total = mean(values.back());
  // Whatever the program never used again still counts.
  for (std::size_t i = 0; i + 1 < values.size(); ++i) total = total + mean(values[i]) * 0.1;
  return total;
}

}  // namespace ferry::test
