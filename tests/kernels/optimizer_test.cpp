// The host kernels of optimizers: many parameters in one call, rows, masters, and what is done with all gradients.
#include <array>
#include <cmath>
#include <optional>

#include "src/ops/optimizer.h"
#include "tests/kernels/test_array.h"

namespace ferry::testing {
namespace {

using ops::OptimizerAttributes;

double rule_tolerance(DType dtype, double scale) {
  const double step = dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 4e-6 : dtype == DType::f16 ? 2e-3 : 1.6e-2;
  return step * std::max(1.0, scale);
}

struct RuleCase {
  std::string op, rows_op;
  int states;
  OptimizerAttributes attributes;
};

const std::vector<RuleCase>& rule_cases() {
  static const std::vector<RuleCase> kCases = {
      {"sgd_", "sgd_rows_", 0, {.rate = 0.5}},
      {"sgd_", "sgd_rows_", 0, {.rate = 0.25, .weight_decay = 0.5}},
      {"sgd_", "sgd_rows_", 1, {.rate = 0.25, .weight_decay = 0.5, .momentum = 0.5, .dampening = 0.25}},
      {"sgd_", "sgd_rows_", 1, {.rate = 0.25, .momentum = 0.5, .nesterov = true}},
      {"sgd_",
       "sgd_rows_",
       1,
       {.rate = 0.25, .momentum = 0.5, .dampening = 0.25, .nesterov = true, .first_step = true}},
      {"adam_",
       "adam_rows_",
       2,
       {.rate = 0.1,
        .weight_decay = 0.25,
        .epsilon = 1e-3,
        .beta1 = 0.5,
        .beta2 = 0.75,
        .correction1 = 0.75,
        .correction2 = 0.4375}},
      {"adam_",
       "adam_rows_",
       3,
       {.rate = 0.1,
        .epsilon = 1e-3,
        .beta1 = 0.5,
        .beta2 = 0.75,
        .correction1 = 0.5,
        .correction2 = 0.25,
        .shrink = 0.9}},
      {"adagrad_", "adagrad_rows_", 1, {.rate = 0.1, .weight_decay = 0.125, .epsilon = 1e-3}},
  };
  return kCases;
}

struct Element {
  double parameter = 0;
  std::array<double, 3> state{};
};

Element stepped(const RuleCase& rule, Element e, double gradient) {
  const OptimizerAttributes& a = rule.attributes;
  const double g = gradient + a.weight_decay * e.parameter;
  if (rule.op == "sgd_") {
    double step = g;
    if (rule.states > 0) {
      e.state[0] = a.first_step ? g : a.momentum * e.state[0] + (1 - a.dampening) * g;
      step = a.nesterov ? g + a.momentum * e.state[0] : e.state[0];
    }
    e.parameter -= a.rate * step;
  } else if (rule.op == "adam_") {
    e.state[0] = a.beta1 * e.state[0] + (1 - a.beta1) * g;
    e.state[1] = a.beta2 * e.state[1] + (1 - a.beta2) * g * g;
    if (rule.states == 3) e.state[2] = std::max(e.state[2], e.state[1]);
    const double square = e.state[rule.states == 3 ? 2 : 1];
    e.parameter = e.parameter * a.shrink -
                  a.rate / a.correction1 * (e.state[0] / (std::sqrt(square) / std::sqrt(a.correction2) + a.epsilon));
  } else {
    e.state[0] += g * g;
    e.parameter -= a.rate * (g / (std::sqrt(e.state[0]) + a.epsilon));
  }
  return e;
}

// One parameter with its gradient and state.
class Parameter {
 public:
  Parameter(const RuleCase& rule, DType dtype, const Shape& shape, bool master, Layout layout, Layout gradient_layout,
            std::mt19937& random)
      : rule_(rule), parameter_(dtype, shape, layout), gradient_(dtype, shape, gradient_layout) {
    const DType wide = size_of(dtype) == 2 ? DType::f32 : dtype;
    parameter_.randomize(random, -3, 3);
    gradient_.randomize(random, -3, 3);
    for (int i = 0; i < rule.states; ++i) {
      // Squares are not negative.
      const bool positive = rule.op == "adagrad_" || (rule.op == "adam_" && i > 0);
      state_.emplace_back(wide, shape, layout).randomize(random, positive ? 0 : -3, 3);
    }
    if (master) {
      master_.emplace(wide, shape, layout);
      for (std::int64_t i = 0; i < parameter_.numel(); ++i) master_->set(i, parameter_.get(i) + 1.0 / 4096);
    }
  }

  std::vector<TensorView> places() {
    std::vector<TensorView> views(4);
    for (std::size_t i = 0; i < state_.size(); ++i) views[i] = state_[i].view();
    if (master_) views[3] = master_->view();
    return views;
  }
  Element at(std::int64_t i) const {
    Element element{master_ ? master_->get(i) : parameter_.get(i)};
    for (std::size_t s = 0; s < state_.size(); ++s) element.state[s] = state_[s].get(i);
    return element;
  }
  std::vector<Element> elements() const {
    std::vector<Element> all;
    for (std::int64_t i = 0; i < parameter_.numel(); ++i) all.push_back(at(i));
    return all;
  }
  void expect(std::int64_t i, const Element& expected) const {
    const DType dtype = parameter_.dtype(), wide = size_of(dtype) == 2 ? DType::f32 : dtype;
    const double scale = std::fabs(expected.parameter);
    ASSERT_NEAR(parameter_.get(i), expected.parameter, rule_tolerance(dtype, scale)) << rule_.op << " " << i;
    if (master_) {
      ASSERT_NEAR(master_->get(i), expected.parameter, rule_tolerance(wide, scale));
      ASSERT_EQ(parameter_.get(i), rounded(dtype, master_->get(i)));
    }
    for (std::size_t s = 0; s < state_.size(); ++s) {
      ASSERT_NEAR(state_[s].get(i), expected.state[s], rule_tolerance(wide, std::fabs(expected.state[s])));
    }
    ASSERT_TRUE(parameter_.guards_intact());
  }
  Array& parameter() { return parameter_; }
  Array& gradient() { return gradient_; }

 private:
  const RuleCase& rule_;
  Array parameter_, gradient_;
  std::vector<Array> state_;
  std::optional<Array> master_;
};

void run_in_place(const std::string& op, const std::vector<TensorView>& inputs, const Attributes& attributes) {
  run(op, inputs, {}, attributes);
}

TEST(Optimizer, OneCallStepsManyParametersInAnyLayout) {
  std::mt19937 random(7);
  for (const RuleCase& rule : rule_cases()) {
    for (const DType dtype : kFloats) {
      for (const bool master : {false, true}) {
        if (master && size_of(dtype) != 2) continue;
        std::vector<Parameter> parameters;
        for (const Shape& shape : test_shapes()) {
          parameters.emplace_back(rule, dtype, shape, master, kLayouts[random() % 3], kLayouts[random() % 5], random);
        }
        std::vector<TensorView> inputs;
        std::vector<std::vector<Element>> before;
        for (Parameter& each : parameters) {
          before.push_back(each.elements());
          inputs.insert(inputs.end(), {each.parameter().view(), each.gradient().view()});
          for (const TensorView& view : each.places()) inputs.push_back(view);
        }
        run_in_place(rule.op, inputs, rule.attributes);
        for (std::size_t k = 0; k < parameters.size(); ++k) {
          for (std::int64_t i = 0; i < parameters[k].parameter().numel(); ++i) {
            const Element& start = before[k][static_cast<std::size_t>(i)];
            parameters[k].expect(i, stepped(rule, start, parameters[k].gradient().get(i)));
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(OptimizerRows, TouchTheNamedRowsOnlyOrAll) {
  constexpr std::int64_t kRows = 50, kWidth = 13;
  std::mt19937 random(8);
  for (const RuleCase& rule : rule_cases()) {
    for (const DType dtype : kFloats) {
      for (const bool every_row : {false, true}) {
        for (const bool master : {false, true}) {
          if (master && size_of(dtype) != 2) continue;
          Parameter each(rule, dtype, {kRows, kWidth}, master, Layout::contiguous, Layout::contiguous, random);
          // Row 3 stands twice.
          const std::vector<double> named = {49, 3, -1, 3, 0, -1};
          Array rows = Array::of(random() % 2 == 0 ? DType::i64 : DType::i32, {6}, named), values(dtype, {6, kWidth});
          values.randomize(random, -3, 3);
          const auto before = each.elements();
          std::vector<TensorView> inputs = {each.parameter().view(), rows.view(), values.view()};
          for (const TensorView& view : each.places()) inputs.push_back(view);
          OptimizerAttributes attributes = rule.attributes;
          attributes.every_row = every_row;
          run_in_place(rule.rows_op, inputs, attributes);
          for (std::int64_t i = 0; i < kRows * kWidth; ++i) {
            bool touched = every_row;
            double gradient = 0;
            for (std::size_t r = 0; r < named.size(); ++r) {
              if (named[r] != static_cast<double>(i / kWidth)) continue;
              gradient = rounded(dtype, gradient + values.get(static_cast<std::int64_t>(r) * kWidth + i % kWidth));
              touched = true;
            }
            const Element& start = before[static_cast<std::size_t>(i)];
            if (!touched && master) continue;  // a master that no step has rounded
            each.expect(i, touched ? stepped(rule, start, gradient) : start);
            if (::testing::Test::HasFatalFailure()) return;
          }
          rows.set(3, 50);
          EXPECT_NE(message_of([&] {
                      run_in_place(rule.rows_op, inputs, attributes);
                    }).find(rule.rows_op + ": rows[3] = 50 is out of range for param [50, 13]"),
                    std::string::npos);
        }
      }
    }
  }
}

TEST(AllGradients, ScaleUnscaleClampAndSquareSum) {
  std::mt19937 random(9);
  for (const DType dtype : kFloats) {
    for (const Layout layout : {Layout::contiguous, Layout::reversed, Layout::gaps}) {
      std::vector<Array> arrays;
      for (const Shape& shape : test_shapes()) arrays.emplace_back(dtype, shape, layout).randomize(random, -3, 3);
      Array factor = Array::of(DType::f32, {1}, {0.5}), found = Array::of(DType::f32, {1}, {0});
      std::vector<TensorView> alone, scaled, unscaled;
      std::vector<std::vector<double>> before;
      double squares = 0;
      for (Array& each : arrays) {
        before.push_back(each.values());
        for (const double value : before.back()) squares += value * value;
        alone.push_back(each.view());
        scaled.insert(scaled.end(), {each.view(), factor.view()});
        unscaled.insert(unscaled.end(), {each.view(), found.view()});
      }
      Array sum(dtype == DType::f64 ? DType::f64 : DType::f32, {1});
      run("square_sum", alone, {sum.view()});
      EXPECT_NEAR(sum.get(0), squares, squares * (dtype == DType::f64 ? 1e-13 : 1e-5));
      run_in_place("scale_", scaled, {});
      run_in_place("unscale_", unscaled, ops::UnscaleAttributes{4});
      run_in_place("clamp_", alone, ops::ClampAttributes{1.5});
      EXPECT_EQ(found.get(0), 0);
      for (std::size_t k = 0; k < arrays.size(); ++k) {
        for (std::size_t i = 0; i < before[k].size(); ++i) {
          ASSERT_EQ(arrays[k].get(static_cast<std::int64_t>(i)), std::clamp(before[k][i] * 2, -1.5, 1.5));
        }
        ASSERT_TRUE(arrays[k].guards_intact());
      }
      for (const double bad : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
        for (const std::int64_t place : {std::int64_t{0}, arrays.back().numel() / 2, arrays.back().numel() - 1}) {
          found.set(0, 0);
          const double good = arrays.back().get(place);
          arrays.back().set(place, bad);
          run_in_place("unscale_", unscaled, ops::UnscaleAttributes{1});
          EXPECT_EQ(found.get(0), 1) << place;
          arrays.back().set(place, good);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ferry::testing
