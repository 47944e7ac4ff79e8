#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

using Call = std::function<Tensor(const Tensors&)>;
using Reference = std::function<Array(const Arrays&)>;

Input mask(const Shape& shape) { return {shape, 0, 2, DType::boolean}; }

OpCase on_any_type(std::string op, std::string variant, std::vector<Input> inputs, Call call, Reference reference) {
  return {std::move(op), std::move(variant), std::move(inputs), std::move(call), std::move(reference), all_types(), 1};
}

void add_gathers(std::vector<OpCase>& cases) {
  struct Gather {
    Shape x, index;
    int axis;
  };
  const std::vector<Gather> gathers = {{{4}, {7}, 0},
                                       {{3, 5}, {3, 2}, 1},
                                       {{3, 5}, {2, 9}, 1},
                                       {{6, 4}, {20, 3}, 0},
                                       {{2, 3, 4, 5}, {2, 3, 2, 5}, -2},
                                       {{2, 3, 4, 5}, {1, 6, 4, 5}, 1},
                                       {{3, 5}, {3, 0}, 1},
                                       {{0, 5}, {0, 2}, 1},
                                       {{3, 70}, {2, 130}, 1},
                                       {{17, 40}, {33, 40}, 0}};
  for (const Gather& each : gathers) {
    const int axis = each.axis, at = axis < 0 ? axis + each.x.rank() : axis;
    for (const DType type : {DType::i64, DType::i32}) {
      cases.push_back(on_any_type(
          "gather", to_string(each.x) + to_string(each.index) + std::string(name_of(type)),
          {{each.x, 0, 2}, ids(each.index, each.x[at], type)},
          [axis](const Tensors& t) { return gather(t[0], axis, t[1]); },
          [at](const Arrays& t) { return gathered(t[0], at, t[1]); }));
    }
  }
}

void add_selections(std::vector<OpCase>& cases) {
  struct Selection {
    Shape x;
    int axis;
    std::int64_t count;
  };
  // Rows of 20 are added whole, shorter ones and other axes element by element.
  const std::vector<Selection> selections = {{{4}, 0, 9},        {{5, 3}, 0, 8},       {{5, 20}, 0, 40},
                                             {{3, 5}, -1, 4},    {{2, 3, 4, 5}, 1, 7}, {{6, 2, 5}, 0, 3},
                                             {{2, 40, 3}, 1, 9}, {{3, 4}, 0, 0},       {{0, 4}, 1, 3}};
  for (const Selection& each : selections) {
    const int axis = each.axis, at = axis < 0 ? axis + each.x.rank() : axis;
    for (const DType type : {DType::i64, DType::i32}) {
      cases.push_back(on_any_type(
          "index_select", to_string(each.x) + std::to_string(axis) + std::string(name_of(type)),
          {{each.x, 0, 2}, ids({each.count}, each.x[at], type)},
          [axis](const Tensors& t) { return index_select(t[0], axis, t[1]); },
          [at](const Arrays& t) { return index_selected(t[0], at, t[1]); }));
      cases.back().scale = 16;
    }
  }
}

void add_choices(std::vector<OpCase>& cases) {
  struct Choice {
    Shape condition, a, b;
  };
  const std::vector<Choice> choices = {{{}, {}, {}},
                                       {{7}, {7}, {7}},
                                       {{3, 4}, {3, 4}, {1}},
                                       {{3, 1}, {4}, {3, 4}},
                                       {{2, 1, 4}, {2, 3, 4}, {2, 3, 1}},
                                       {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
                                       {{5}, {}, {}},
                                       {{0, 3}, {3}, {0, 3}},
                                       {{2, 100}, {1, 100}, {2, 1}}};
  for (const Choice& each : choices) {
    cases.push_back(on_any_type(
        "where", to_string(each.condition) + to_string(each.a) + to_string(each.b),
        {{each.a, 0, 2}, {each.b, 0, 2}, mask(each.condition)},
        [](const Tensors& t) { return where(t[2], t[0], t[1]); },
        [](const Arrays& t) {
          const Array first = map(t[2], t[0], [](double c, double a) { return c * a; });
          const Array second = map(t[2], t[1], [](double c, double b) { return (1 - c) * b; });
          return map(first, second, [](double a, double b) { return a + b; });
        }));
    cases.back().differentiable = 2;
  }
  const std::vector<std::pair<Shape, Shape>> masked = {
      {{}, {}},      {{5, 70}, {5, 70}},    {{3, 4}, {4}}, {{3, 4}, {3, 1}}, {{2, 3, 4, 5}, {4, 5}},
      {{0, 3}, {1}}, {{2, 2, 3}, {2, 1, 3}}};
  for (const auto& [x, shape] : masked) {
    cases.push_back(on_any_type(
        "masked_fill", to_string(x) + to_string(shape), {{x, 0, 2}, mask(shape)},
        [](const Tensors& t) { return masked_fill(t[0], t[1], 1); },
        [](const Arrays& t) { return map(t[0], t[1], [](double v, double m) { return m != 0 ? 1 : v; }); }));
  }
}

void add_pads(std::vector<OpCase>& cases) {
  struct Pad {
    Shape x;
    std::vector<std::int64_t> begins, ends;
  };
  const std::vector<Pad> pads = {{{4}, {2}, {3}},
                                 {{3, 5}, {0, 1}, {2, 0}},
                                 {{2, 3, 4, 5}, {0, 0, 2, 1}, {0, 0, 1, 3}},
                                 {{2, 2, 3}, {1, 1, 2}, {1, 0, 2}},
                                 {{3, 4}, {0, 0}, {0, 0}}};
  for (const Pad& each : pads) {
    for (const PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::replicate}) {
      const PadOptions options{.mode = mode, .value = 1};
      cases.push_back(on_any_type(
          "pad", to_string(each.x) + std::to_string(static_cast<int>(mode)), {{each.x, 0, 2}},
          [=](const Tensors& t) { return pad(t[0], each.begins, each.ends, options); },
          [=](const Arrays& t) {
            return padded(t[0], Dims(std::span(each.begins)), Dims(std::span(each.ends)), mode, 1);
          }));
    }
  }
  cases.push_back(on_any_type(
      "pad", "nothing", {{{0, 2}, 0, 2}},
      [](const Tensors& t) {
        return pad(t[0], {1, 0}, {0, 1}, {.value = 1});
      },
      [](const Arrays&) {
        return Array::filled({1, 3}, 1);
      }));
  cases.push_back(on_any_type(
      "pad", "rank_0", {{{}, 0, 2}}, [](const Tensors& t) { return pad(t[0], {}, {}); },
      [](const Arrays& t) { return t[0]; }));
}

void add_flips(std::vector<OpCase>& cases) {
  const std::vector<std::pair<Shape, std::vector<int>>> flips = {
      {{5}, {0}}, {{3, 4}, {-1}}, {{2, 3, 4, 5}, {1, 3}}, {{3, 40, 33}, {0, 1}}, {{0, 3}, {0}}, {{2, 3}, {}}};
  for (const auto& [shape, axes] : flips) {
    cases.push_back(on_any_type(
        "flip", to_string(shape), {{shape, 0, 2}}, [axes](const Tensors& t) { return flip(t[0], axes); },
        [axes, shape](const Arrays& t) {
          Dims starts = Dims::filled(shape.rank(), 0), steps = Dims::filled(shape.rank(), 1);
          for (const int axis : axes) {
            const int at = axis < 0 ? axis + shape.rank() : axis;
            starts[at] = shape[at] - 1;
            steps[at] = -1;
          }
          return sliced(t[0], starts, steps, shape);
        }));
  }
}

// Part i of x along axis 1, whose parts have `sizes` elements.
Array part(const Array& x, const std::vector<std::int64_t>& sizes, std::size_t i) {
  Dims starts = Dims::filled(x.shape.rank(), 0);
  for (std::size_t k = 0; k < i; ++k) starts[1] += sizes[k];
  Shape shape = x.shape;
  shape[1] = sizes[i];
  return sliced(x, starts, Dims::filled(x.shape.rank(), 1), shape);
}

void add_splits(std::vector<OpCase>& cases) {
  const std::vector<std::int64_t> sizes{3, 0, 1, 2};
  for (const std::size_t i : {0, 2, 3}) {
    cases.push_back(on_any_type(
        "split", "part" + std::to_string(i), {{{2, 6, 3, 2}, 0, 2}},
        [=](const Tensors& t) { return split(t[0], sizes, 1)[i]; },
        [=](const Arrays& t) { return part(t[0], sizes, i); }));
  }
  cases.push_back(on_any_type(
      "split", "equal", {{{2, 6, 3}, 0, 2}},
      [](const Tensors& t) {
        const std::vector<Tensor> parts = split(t[0], 3, -2);
        return concat({parts[2], parts[0]}, 1);
      },
      [](const Arrays& t) {
        const std::vector<std::int64_t> equal{2, 2, 2};
        return concatenated({part(t[0], equal, 2), part(t[0], equal, 0)}, 1);
      }));
  const std::vector<std::int64_t> many = [] {
    std::vector<std::int64_t> result(40, 1);
    result[7] = 2;
    return result;
  }();
  cases.push_back(on_any_type(
      "split", "many", {{{2, 41}, 0, 2}}, [many](const Tensors& t) { return split(t[0], many, 1)[7]; },
      [many](const Arrays& t) { return part(t[0], many, 7); }));
}

void add_stacks(std::vector<OpCase>& cases) {
  const std::vector<std::pair<Shape, int>> stacks = {{{}, 0}, {{3}, 0}, {{2, 3}, 1}, {{2, 3}, -1}, {{2, 3, 4}, -3}};
  for (const auto& [shape, axis] : stacks) {
    const int at = axis < 0 ? axis + shape.rank() + 1 : axis;
    Shape slice;
    for (int i = 0; i <= shape.rank(); ++i) slice.push_back(i == at ? 1 : shape[i < at ? i : i - 1]);
    cases.push_back(on_any_type(
        "concat", "stack" + to_string(shape) + std::to_string(axis), {{shape, 0, 2}, {shape, 0, 2}, {shape, 0, 2}},
        [axis](const Tensors& t) { return stack(t, axis); },
        [=](const Arrays& t) {
          return concatenated({reshaped(t[0], slice), reshaped(t[1], slice), reshaped(t[2], slice)}, at);
        }));
    cases.back().differentiable = 3;
  }
}

}  // namespace

std::vector<OpCase> indexing_cases() {
  std::vector<OpCase> cases;
  add_gathers(cases);
  add_selections(cases);
  add_choices(cases);
  add_pads(cases);
  add_flips(cases);
  add_splits(cases);
  add_stacks(cases);
  return cases;
}

}  // namespace ferry::test
