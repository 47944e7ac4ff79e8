// One table of op calls, read by the conformance test (values against plain references on every backend) and by the
// gradient test (against finite differences).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <ferry/ops.h>
#include "tests/support/generators.h"
#include "tests/support/references.h"

namespace ferry::test {

using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;

// A case's dtype unless `dtype` is stated; values uniform in [low, high).
struct Input {
  Shape shape;
  double low = -2, high = 2;
  std::optional<DType> dtype{};
  std::vector<double> fixed{};  // these values instead of random ones, for indices
};

struct OpCase {
  std::string op;  // the schema that the call ends in
  std::string variant;
  std::vector<Input> inputs;
  std::function<Tensor(const Tensors&)> call;
  std::function<Array(const Arrays&)> reference;
  std::vector<DType> dtypes;
  // Inputs with a gradient, counted from the first.
  std::size_t differentiable = 0;
  // Size of intermediate results: what rounding is relative to.
  double scale = 4;
};

const std::vector<DType>& floats();
// All floats and i32, i64, u8.
const std::vector<DType>& numbers();
const std::vector<DType>& all_types();
Input ids(const Shape& shape, std::int64_t rows, DType dtype = DType::i64);
Input fixed_ids(const std::vector<double>& values, DType dtype = DType::i64);

// By file.
std::vector<OpCase> activation_cases();
std::vector<OpCase> elementwise_cases();
std::vector<OpCase> in_place_cases();
std::vector<OpCase> reduction_cases();
std::vector<OpCase> matmul_cases();
std::vector<OpCase> movement_cases();
std::vector<OpCase> image_cases();
std::vector<OpCase> normalization_cases();
std::vector<OpCase> sample_normalization_cases();
std::vector<OpCase> lookup_cases();
std::vector<OpCase> convolution_cases();
std::vector<OpCase> indexing_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> recurrent_cases();
std::vector<OpCase> loss_cases();

// All of the above, by op.
const std::vector<std::pair<std::string, std::vector<OpCase>>>& cases_by_op();

}  // namespace ferry::test
