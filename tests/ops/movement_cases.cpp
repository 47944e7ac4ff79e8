#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

using Call = std::function<Tensor(const Tensors&)>;
using Reference = std::function<Array(const Arrays&)>;

OpCase moves(std::string op, std::string variant, const Shape& shape, Call call, Reference reference) {
  return {std::move(op), std::move(variant), {{shape, 0, 2}}, std::move(call), std::move(reference), all_types(), 1};
}

void add_views(std::vector<OpCase>& cases) {
  const auto reshaping = [&](const Shape& from, const Shape& requested, const Shape& to) {
    cases.push_back(moves(
        "reshape", to_string(from) + to_string(requested), from,
        [requested](const Tensors& x) { return reshape(x[0], requested); },
        [to](const Arrays& x) { return reshaped(x[0], to); }));
  };
  reshaping({}, {1, 1}, {1, 1});
  reshaping({6}, {2, 3}, {2, 3});
  reshaping({2, 3, 4}, {6, -1}, {6, 4});
  reshaping({2, 3, 4}, {2, 12}, {2, 12});
  reshaping({2, 3, 4, 5}, {-1}, {120});
  reshaping({0, 3}, {3, 0, 2}, {3, 0, 2});
  reshaping({1, 4}, {4}, {4});
  cases.push_back(moves(
      "reshape", "flatten", {2, 3, 4}, [](const Tensors& x) { return flatten(x[0], 1); },
      [](const Arrays& x) {
        return reshaped(x[0], {2, 12});
      }));
  cases.push_back(moves(
      "reshape", "flatten_rank_0", {}, [](const Tensors& x) { return flatten(x[0]); },
      [](const Arrays& x) { return reshaped(x[0], {1}); }));
  cases.push_back(moves(
      "permute", "rank_4", {2, 3, 4, 5},
      [](const Tensors& x) {
        return permute(x[0], {2, -1, 0, 1});
      },
      [](const Arrays& x) {
        return permuted(x[0], {2, 3, 0, 1});
      }));
  cases.push_back(moves(
      "permute", "transpose", {2, 3, 4}, [](const Tensors& x) { return transpose(x[0]); },
      [](const Arrays& x) {
        return permuted(x[0], {0, 2, 1});
      }));
  cases.push_back(moves(
      "permute", "empty", {0, 4}, [](const Tensors& x) { return transpose(x[0], 0, 1); },
      [](const Arrays& x) {
        return permuted(x[0], {1, 0});
      }));
  cases.push_back(moves(
      "narrow", "middle", {2, 7, 3}, [](const Tensors& x) { return narrow(x[0], 1, 2, 4); },
      [](const Arrays& x) {
        return sliced(x[0], {0, 2, 0}, {1, 1, 1}, {2, 4, 3});
      }));
  cases.push_back(moves(
      "narrow", "nothing", {4}, [](const Tensors& x) { return narrow(x[0], 0, 4, 0); },
      [](const Arrays&) {
        return Array{{0}, {}};
      }));
  cases.push_back(moves(
      "narrow", "select", {3, 4, 2}, [](const Tensors& x) { return select(x[0], 1, -1); },
      [](const Arrays& x) {
        return reshaped(sliced(x[0], {0, 3, 0}, {1, 1, 1}, {3, 1, 2}), {3, 2});
      }));
  cases.push_back(moves(
      "expand", "leading", {3, 1},
      [](const Tensors& x) {
        return expand(x[0], {2, 3, 4});
      },
      [](const Arrays& x) {
        return expanded(x[0], {2, 3, 4});
      }));
  cases.push_back(moves(
      "expand", "rank_0", {},
      [](const Tensors& x) {
        return expand(x[0], {2, 2});
      },
      [](const Arrays& x) {
        return expanded(x[0], {2, 2});
      }));
}

void add_slices(std::vector<OpCase>& cases) {
  cases.push_back(moves(
      "slice", "two_axes", {5, 4, 6},
      [](const Tensors& x) {
        return slice(x[0], {0, 2}, {1, 0}, {4, 5});
      },
      [](const Arrays& x) {
        return sliced(x[0], {1, 0, 0}, {1, 1, 1}, {3, 4, 5});
      }));
  cases.push_back(moves(
      "slice", "negative_and_clamped", {5, 4},
      [](const Tensors& x) {
        return slice(x[0], {0, -1}, {-3, -100}, {100, -1});
      },
      [](const Arrays& x) {
        return sliced(x[0], {2, 0}, {1, 1}, {3, 3});
      }));
  cases.push_back(moves(
      "slice", "steps", {9, 7},
      [](const Tensors& x) {
        return slice(x[0], {0, 1}, {1, 0}, {9, 7}, {3, 2});
      },
      [](const Arrays& x) {
        return sliced(x[0], {1, 0}, {3, 2}, {3, 4});
      }));
  cases.push_back(moves(
      "slice", "nothing", {5, 4}, [](const Tensors& x) { return slice(x[0], {0}, {3}, {2}); },
      [](const Arrays&) {
        return Array{{0, 4}, {}};
      }));
  for (const DType type : {DType::i64, DType::i32}) {
    OpCase bounds = moves(
        "slice", "bounds_of_" + std::string(name_of(type)), {5, 4},
        [](const Tensors& x) {
          return slice(x[0], {0, 1}, x[1], x[2]);
        },
        [](const Arrays& x) {
          return sliced(x[0], {1, 0}, {1, 1}, {4, 3});
        });
    bounds.inputs.push_back(fixed_ids({1, 0}, type));
    bounds.inputs.push_back(fixed_ids({5, -1}, type));
    cases.push_back(std::move(bounds));
  }
  cases.push_back(moves(
      "crop", "at_offset", {5, 4, 6},
      [](const Tensors& x) {
        return crop(x[0], {2, 4, 3}, {1, 0, 2});
      },
      [](const Arrays& x) {
        return sliced(x[0], {1, 0, 2}, {1, 1, 1}, {2, 4, 3});
      }));
  cases.push_back(moves(
      "crop", "from_start", {5, 4},
      [](const Tensors& x) {
        return crop(x[0], Shape{2, 0});
      },
      [](const Arrays&) {
        return Array{{2, 0}, {}};
      }));
  OpCase by_tensor = moves(
      "crop", "shape_tensor", {5, 4},
      [](const Tensors& x) {
        return crop(x[0], x[1], {1, 1});
      },
      [](const Arrays& x) {
        return sliced(x[0], {1, 1}, {1, 1}, {3, 2});
      });
  by_tensor.inputs.push_back(fixed_ids({3, 2}));
  cases.push_back(std::move(by_tensor));
}

void add_concats(std::vector<OpCase>& cases) {
  struct Parts {
    std::vector<Shape> shapes;
    int axis;
  };
  const std::vector<Parts> parts = {{{{3}}, 0},
                                    {{{2, 3}, {4, 3}}, 0},
                                    {{{2, 3}, {2, 1}, {2, 4}}, -1},
                                    {{{2, 0, 3}, {2, 2, 3}}, 1},
                                    {{{2, 3, 4, 5}, {2, 2, 4, 5}}, 1}};
  for (const Parts& each : parts) {
    OpCase concatenation{
        "concat",
        to_string(each.shapes[0]) + std::to_string(each.axis),
        {},
        [axis = each.axis](const Tensors& x) { return concat(x, axis); },
        [axis = each.axis](const Arrays& x) { return concatenated(x, axis < 0 ? axis + x[0].shape.rank() : axis); },
        all_types(),
        each.shapes.size()};
    for (const Shape& shape : each.shapes) concatenation.inputs.push_back({shape, 0, 2});
    cases.push_back(std::move(concatenation));
  }
}

void add_copies(std::vector<OpCase>& cases) {
  const std::vector<Shape> shapes = {{}, {0}, {3, 5}, {2, 3, 4, 5}};
  for (const Shape& shape : shapes) {
    for (const DType target : all_types()) {
      cases.push_back(moves(
          "copy", to_string(shape) + std::string(name_of(target)), shape,
          [target](const Tensors& x) { return x[0].to(target); },
          [target](const Arrays& x) {
            return map(x[0], [target](double v) {
              if (target == DType::boolean) return double(v != 0);
              if (!is_floating(target)) return double(std::int64_t(v));
              return v;
            });
          }));
      if (!is_floating(target)) cases.back().differentiable = 0;
      // A gradient that passes through 16 bits is no match for finite differences of f64.
      if (size_of(target) < 8) cases.back().differentiable = 0;
    }
    cases.push_back(moves(
        "copy", to_string(shape) + "contiguous", shape, [](const Tensors& x) { return x[0].contiguous(); },
        [](const Arrays& x) { return x[0]; }));
    cases.push_back(moves(
        "to", to_string(shape), shape,
        [](const Tensors& x) {
          const bool movable = is_floating(x[0].dtype());
          return (movable ? x[0] * 1.0 : x[0]).to(cpu::device);
        },
        [](const Arrays& x) { return x[0]; }));
    cases.push_back(moves(
        "shape", to_string(shape), shape, [](const Tensors& x) { return ferry::shape(x[0]); },
        [shape](const Arrays&) {
          return Array{{shape.rank()}, std::vector<double>(shape.begin(), shape.end())};
        }));
    cases.back().differentiable = 0;
  }
}

}  // namespace

std::vector<OpCase> movement_cases() {
  std::vector<OpCase> cases;
  add_views(cases);
  add_slices(cases);
  add_concats(cases);
  add_copies(cases);
  return cases;
}

}  // namespace ferry::test
