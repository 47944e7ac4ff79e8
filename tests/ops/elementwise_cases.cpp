#include <algorithm>
#include <cmath>

#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

const std::vector<std::pair<Shape, Shape>>& broadcast_pairs() {
  static const std::vector<std::pair<Shape, Shape>> kPairs = {
      {{}, {}},
      {{7}, {7}},
      {{0}, {1}},
      {{3, 5}, {3, 5}},
      {{3, 5}, {5}},
      {{4, 1}, {1, 6}},
      {{}, {2, 3}},
      {{2, 3, 4}, {3, 1}},
      {{1, 3}, {2, 1, 3}},
      {{2, 0, 3}, {3}},
      {{33, 65}, {65}},
      {{2, 3, 4, 5}, {2, 3, 4, 5}},
      {{2, 3, 4, 5}, {3, 1, 1}},
      {{1, 1}, {257, 1}},
  };
  return kPairs;
}

const std::vector<Shape>& unary_shapes() {
  static const std::vector<Shape> kShapes = {{}, {0}, {1}, {7}, {3, 5}, {2, 0, 4}, {2, 3, 4}, {2, 3, 4, 5}, {65, 33}};
  return kShapes;
}

using Binary = Tensor (*)(const Tensor&, const Tensor&, Where);

struct BinaryOp {
  std::string name;
  Binary call;
  double (*reference)(double, double);
  double (*whole)(double, double);  // of integers
  double low = -2, high = 2;        // of the second operand
  bool differentiable = true;
  double scale = 4;
};

// u8 wraps round; the values here stay in 0 … 7 with a ≥ b, so that no result does.
void add_binary(std::vector<OpCase>& cases, const BinaryOp& op) {
  const auto tensors = [call = op.call](const Tensors& x) { return call(x[0], x[1], Where::current()); };
  for (const auto& [a, b] : broadcast_pairs()) {
    const std::string variant = to_string(a) + to_string(b);
    cases.push_back({op.name,
                     variant,
                     {{a}, {b, op.low, op.high}},
                     tensors,
                     [f = op.reference](const Arrays& x) { return map(x[0], x[1], f); },
                     floats(),
                     op.differentiable ? 2u : 0u,
                     op.scale});
    cases.push_back({op.name,
                     variant + "whole",
                     {{a, 4, 8}, {b, 1, 4}},
                     tensors,
                     [f = op.whole](const Arrays& x) { return map(x[0], x[1], f); },
                     {DType::i32, DType::i64, DType::u8}});
  }
}

struct UnaryOp {
  std::string name;
  std::function<Tensor(const Tensor&)> call;
  double (*reference)(double);
  double low = -2, high = 2;
  std::vector<DType> dtypes = floats();
  double scale = 4;
};

void add_unary(std::vector<OpCase>& cases, const UnaryOp& op) {
  for (const Shape& shape : unary_shapes()) {
    cases.push_back({op.name,
                     to_string(shape),
                     {{shape, op.low, op.high}},
                     [call = op.call](const Tensors& x) { return call(x[0]); },
                     [f = op.reference](const Arrays& x) { return map(x[0], f); },
                     op.dtypes,
                     1,
                     op.scale});
  }
}

void add_scalar_forms(std::vector<OpCase>& cases) {
  add_unary(cases, {"square_error_scalar", [](const Tensor& x) { return square_error(x, 0.5); },
                    [](double x) { return (x - 0.5) * (x - 0.5); }, -2, 2, floats(), 16});
  add_unary(cases, {"add_scalar", [](const Tensor& x) { return x + 1.5; }, [](double x) { return x + 1.5; }});
  add_unary(cases, {"add_scalar",
                    [](const Tensor& x) { return add(x, 3); },
                    [](double x) { return x + 3; },
                    0,
                    9,
                    {DType::i32, DType::i64, DType::u8}});
  add_unary(cases, {"mul_scalar", [](const Tensor& x) { return 0.75 * x; }, [](double x) { return 0.75 * x; }});
  add_unary(cases, {"mul_scalar",
                    [](const Tensor& x) { return mul(x, 3); },
                    [](double x) { return x * 3; },
                    0,
                    9,
                    {DType::i32, DType::i64, DType::u8}});
  add_unary(cases, {"rsub_scalar", [](const Tensor& x) { return 1.25 - x; }, [](double x) { return 1.25 - x; }});
  add_unary(cases, {"rdiv_scalar", [](const Tensor& x) { return 3.0 / x; }, [](double x) { return 3 / x; }, 0.5, 2,
                    floats(), 40});
  add_unary(cases, {"pow_scalar", [](const Tensor& x) { return pow(x, 1.7); },
                    [](double x) { return std::pow(x, 1.7); }, 0.25, 2});
  add_unary(cases, {"pow_scalar", [](const Tensor& x) { return pow(x, 3); }, [](double x) { return x * x * x; }, -2, 2,
                    floats(), 16});
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  const auto quotient = [](double a, double b) { return std::trunc(a / b); };
  add_binary(cases, {"add", add, [](double a, double b) { return a + b; }, [](double a, double b) { return a + b; }});
  add_binary(cases, {"sub", sub, [](double a, double b) { return a - b; }, [](double a, double b) { return a - b; }});
  add_binary(cases, {"mul", mul, [](double a, double b) { return a * b; }, [](double a, double b) { return a * b; }});
  add_binary(cases, {"div", div, [](double a, double b) { return a / b; }, quotient, 0.5, 2, true, 16});
  add_binary(cases, {"maximum", maximum, [](double a, double b) { return std::max(a, b); },
                     [](double a, double b) { return std::max(a, b); }});
  add_binary(cases, {"minimum", minimum, [](double a, double b) { return std::min(a, b); },
                     [](double a, double b) { return std::min(a, b); }});
  add_binary(cases,
             {"square_error", [](const Tensor& a, const Tensor& b, Where where) { return square_error(a, b, where); },
              [](double a, double b) { return (a - b) * (a - b); },
              [](double a, double b) { return (a - b) * (a - b); }, -2, 2, true, 16});
  add_binary(cases, {"equal", equal, [](double a, double b) { return double(a == b); },
                     [](double a, double b) { return double(a == b); }, -2, 2, false});
  add_binary(cases, {"greater", greater, [](double a, double b) { return double(a > b); },
                     [](double a, double b) { return double(a > b); }, -2, 2, false});
  add_binary(cases, {"less", less, [](double a, double b) { return double(a < b); },
                     [](double a, double b) { return double(a < b); }, -2, 2, false});
  add_scalar_forms(cases);
  add_unary(cases, {"neg", [](const Tensor& x) { return -x; }, [](double x) { return -x; }});
  add_unary(cases, {"abs", [](const Tensor& x) { return abs(x); }, [](double x) { return std::abs(x); }});
  add_unary(cases,
            {"exp", [](const Tensor& x) { return exp(x); }, [](double x) { return std::exp(x); }, -2, 2, floats(), 16});
  add_unary(cases, {"log", [](const Tensor& x) { return log(x); }, [](double x) { return std::log(x); }, 0.25, 4});
  add_unary(cases, {"sqrt", [](const Tensor& x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }, 0.25, 4});
  add_unary(cases, {"square", [](const Tensor& x) { return square(x); }, [](double x) { return x * x; }});
  add_unary(cases, {"relu", [](const Tensor& x) { return relu(x); }, [](double x) { return std::max(x, 0.0); }});
  add_unary(cases, {"tanh", [](const Tensor& x) { return tanh(x); }, [](double x) { return std::tanh(x); }});
  add_unary(cases,
            {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }});
  return cases;
}

// Each writes into a copy of its first input, so that the result is a tensor in the graph.
std::vector<OpCase> in_place_cases() {
  std::vector<OpCase> cases;
  const auto copied = [](const Tensor& x) { return x * 1.0; };
  struct Form {
    std::string name;
    std::function<Tensor(Tensor, const Tensor&)> call;
    double (*reference)(double, double);
  };
  const std::vector<Form> forms = {
      {"add_", [](Tensor x, const Tensor& y) { return x.add_(y); }, [](double x, double y) { return x + y; }},
      {"sub_", [](Tensor x, const Tensor& y) { return x.sub_(y); }, [](double x, double y) { return x - y; }},
  };
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{}, {}}, {{0}, {1}}, {{3, 5}, {5}}, {{2, 3, 4}, {3, 1}}, {{2, 3, 4, 5}, {2, 3, 4, 5}}};
  for (const auto& [a, b] : shapes) {
    const std::string variant = to_string(a) + to_string(b);
    for (const Form& form : forms) {
      cases.push_back({form.name,
                       variant,
                       {{a}, {b}},
                       [=](const Tensors& x) { return form.call(copied(x[0]), x[1]); },
                       [f = form.reference](const Arrays& x) { return map(x[0], x[1], f); },
                       floats(),
                       2});
    }
    // The gradient of the second factor would need the value that was overwritten: an error, tested elsewhere.
    cases.push_back({"mul_",
                     variant,
                     {{a}, {b}},
                     [=](const Tensors& x) {
                       Tensor y = copied(x[0]);
                       return y.mul_(x[1]);
                     },
                     [](const Arrays& x) { return map(x[0], x[1], [](double p, double q) { return p * q; }); },
                     floats(),
                     1});
    cases.push_back({"mul_scalar_",
                     variant,
                     {{a}},
                     [=](const Tensors& x) {
                       Tensor y = copied(x[0]);
                       return y.mul_(2.5);
                     },
                     [](const Arrays& x) { return map(x[0], [](double p) { return p * 2.5; }); },
                     floats(),
                     1});
    cases.push_back({"fill_",
                     variant,
                     {{a}},
                     [=](const Tensors& x) {
                       Tensor y = copied(x[0]);
                       return y.fill_(0.5);
                     },
                     [](const Arrays& x) { return Array::filled(x[0].shape, 0.5); },
                     floats()});
    const auto overwritten = [=](const Tensors& x) {
      Tensor y = copied(x[1]);
      return y.copy_(x[0]);
    };
    cases.push_back({"copy_", variant, {{a}, {a}}, overwritten, [](const Arrays& x) { return x[0]; }, floats(), 1});
    cases.push_back({"copy_",
                     variant + "converts",
                     {{a, 0, 5}, {a, 0, 5, DType::f32}},
                     overwritten,
                     [](const Arrays& x) { return x[0]; },
                     numbers()});
  }
  return cases;
}

}  // namespace ferry::test
