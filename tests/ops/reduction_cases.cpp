#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

using ReductionOp = Tensor (*)(const Tensor&, const std::vector<int>&, bool, Where);

struct ReductionShape {
  Shape shape;
  std::vector<int> axes;
};

void add_reduction(std::vector<OpCase>& cases, const std::string& name, ReductionOp call, Reducer reducer,
                   const std::vector<DType>& dtypes) {
  std::vector<ReductionShape> shapes = {{{}, {}},           {{1}, {0}},
                                        {{7}, {}},          {{3, 5}, {0}},
                                        {{3, 5}, {1}},      {{3, 5}, {0, 1}},
                                        {{2, 3, 4}, {1}},   {{2, 3, 4}, {-1, 0}},
                                        {{2, 3, 4, 5}, {}}, {{2, 3, 4, 5}, {0, 2, 3}},
                                        {{3, 5, 0}, {0}},   {{40, 70}, {-2}},
                                        {{5, 300}, {1}}};
  if (reducer == Reducer::sum) shapes.push_back({{3, 0, 2}, {1}});
  for (const auto& [shape, axes] : shapes) {
    for (const bool keepdim : {false, true}) {
      std::string variant = to_string(shape) + (keepdim ? "keepdim" : "");
      for (const int axis : axes) variant.append(1, '_').append(std::to_string(axis));
      cases.push_back({name,
                       variant,
                       {{shape, 0, 4}},
                       [=, axes = axes](const Tensors& x) { return call(x[0], axes, keepdim, Where::current()); },
                       [=, axes = axes](const Arrays& x) { return reduced(x[0], axes, keepdim, reducer); },
                       dtypes,
                       1,
                       reducer == Reducer::sum ? 4.0 * 100 : 4});
    }
  }
}

}  // namespace

std::vector<OpCase> reduction_cases() {
  std::vector<OpCase> cases;
  add_reduction(cases, "sum", sum, Reducer::sum,
                {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64});
  add_reduction(cases, "mean", mean, Reducer::mean, floats());
  add_reduction(cases, "max", max, Reducer::max, floats());
  const std::vector<ReductionShape> shapes = {{{4}, {0}},           {{3, 5}, {0}}, {{3, 5}, {-1}}, {{2, 3, 4}, {1}},
                                              {{2, 3, 4, 5}, {-3}}, {{0, 3}, {1}}, {{7, 129}, {1}}};
  for (const auto& [shape, axes] : shapes) {
    const int rank = shape.rank(), axis = axes[0];
    cases.push_back({"argmax",
                     to_string(shape) + std::to_string(axis),
                     {{shape}},
                     [axis](const Tensors& x) { return argmax(x[0], axis); },
                     [=](const Arrays& x) { return argmax(x[0], axis < 0 ? axis + rank : axis); },
                     floats()});
    // Few distinct values: the first of equal ones counts.
    cases.push_back({"argmax",
                     to_string(shape) + std::to_string(axis) + "ties",
                     {{shape, 0, 2, DType::i32}},
                     [axis](const Tensors& x) { return argmax(x[0].to(DType::f32), axis); },
                     [=](const Arrays& x) { return argmax(x[0], axis < 0 ? axis + rank : axis); },
                     {DType::f32}});
  }
  return cases;
}

std::vector<OpCase> matmul_cases() {
  std::vector<OpCase> cases;
  const std::vector<std::pair<Shape, Shape>> shapes = {{{1, 1}, {1, 1}},       {{3, 4}, {4, 5}},
                                                       {{2, 3, 4}, {2, 4, 5}}, {{3, 4}, {2, 4, 5}},
                                                       {{2, 3, 4}, {4, 5}},    {{2, 1, 3, 4}, {5, 4, 2}},
                                                       {{0, 4}, {4, 5}},       {{3, 0}, {0, 5}},
                                                       {{33, 70}, {70, 17}},   {{1, 1, 3, 4}, {2, 3, 4, 2}}};
  for (const auto& [a, b] : shapes) {
    cases.push_back({"matmul",
                     to_string(a) + to_string(b),
                     {{a}, {b}},
                     [](const Tensors& x) { return matmul(x[0], x[1]); },
                     [](const Arrays& x) { return matmul(x[0], x[1]); },
                     floats(),
                     2,
                     70});
  }
  const std::vector<std::pair<Shape, std::int64_t>> rows = {{{3, 4}, 5},       {{4}, 3},    {{2, 3, 4}, 5},
                                                            {{2, 1, 3, 4}, 2}, {{0, 4}, 5}, {{17, 65}, 33}};
  for (const auto& [x, features] : rows) {
    const Shape weight{features, x.back()};
    cases.push_back({"linear",
                     to_string(x),
                     {{x}, {weight}, {{features}}},
                     [](const Tensors& t) { return linear(t[0], t[1], t[2]); },
                     [](const Arrays& t) { return linear(t[0], t[1], &t[2]); },
                     floats(),
                     3,
                     70});
    cases.push_back({"linear",
                     to_string(x) + "no_bias",
                     {{x}, {weight}},
                     [](const Tensors& t) { return linear(t[0], t[1]); },
                     [](const Arrays& t) { return linear(t[0], t[1], nullptr); },
                     floats(),
                     2,
                     70});
  }
  return cases;
}

}  // namespace ferry::test
