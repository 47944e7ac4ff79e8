#include <tbb/global_control.h>

#include <algorithm>

#include "src/ops/attributes.h"
#include "tests/kernels/test_array.h"

namespace ferry::testing {
namespace {

// The place in the reduced shape of element i of `shape`.
std::int64_t output_place(const Shape& shape, const Dims& reduced, std::int64_t i) {
  std::int64_t place = 0, scale = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const std::int64_t index = i % shape[axis];
    i /= shape[axis];
    if (reduced[axis] != 0) continue;
    place += index * scale;
    scale *= shape[axis];
  }
  return place;
}

struct Reduced {
  Shape shape;
  std::vector<std::vector<double>> groups;  // the elements that each output combines
};

Reduced group(const Array& x, const Dims& reduced) {
  Reduced result{x.shape(), {}};
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    if (reduced[axis] != 0) result.shape[axis] = 1;
  }
  result.groups.resize(static_cast<std::size_t>(result.shape.product()));
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    result.groups[static_cast<std::size_t>(output_place(x.shape(), reduced, i))].push_back(x.get(i));
  }
  return result;
}

double total(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

std::vector<Shape> shapes() {
  auto all = test_shapes();
  for (const Shape& shape :
       {Shape{300, 5}, Shape{3, 700}, Shape{2, 300, 7}, Shape{20000}, Shape{9, 4, 6, 5}, Shape{200, 300}})
    all.push_back(shape);
  return all;
}

// Operands are multiples of 3/8 below 8, so that sums of up to 2^21 of them are exact in any order.
TEST(Reduce, SumMeanAndMaxMatchReference) {
  std::mt19937 random(1);
  for (const DType dtype : kNumeric) {
    for (const Shape& shape : shapes()) {
      for (int round = 0; round < 4; ++round) {
        ops::ReduceAttributes attributes{Dims::filled(shape.rank(), 0)};
        for (auto& axis : attributes.reduced) axis = round == 0 ? 1 : static_cast<std::int64_t>(random() % 2);
        Array x(dtype, shape, kLayouts[random() % 5]);
        x.randomize(random);
        const Reduced expected = group(x, attributes.reduced);
        Array sum(dtype, expected.shape, kLayouts[random() % 3]), mean(dtype, expected.shape),
            max(dtype, expected.shape);
        run("sum", {x.view()}, {sum.view()}, attributes);
        if (is_floating(dtype)) run("mean", {x.view()}, {mean.view()}, attributes);
        const bool has_max = !expected.groups.empty() && !expected.groups[0].empty();
        if (has_max) run("max", {x.view()}, {max.view()}, attributes);
        for (std::int64_t i = 0; i < sum.numel(); ++i) {
          const auto& values = expected.groups[static_cast<std::size_t>(i)];
          const double whole = total(values);
          ASSERT_EQ(sum.get(i), dtype == DType::u8 ? std::fmod(whole, 256) : rounded(dtype, whole))
              << name_of(dtype) << to_string(shape) << to_string(attributes.reduced);
          if (is_floating(dtype) && values.empty()) {
            ASSERT_TRUE(std::isnan(mean.get(i)));
          }
          if (is_floating(dtype) && !values.empty()) {
            ASSERT_EQ(mean.get(i), rounded(dtype, whole / static_cast<double>(values.size())));
          }
          if (has_max) {
            ASSERT_EQ(max.get(i), *std::max_element(values.begin(), values.end()));
          }
        }
        ASSERT_TRUE(sum.guards_intact() && mean.guards_intact() && max.guards_intact());
      }
    }
  }
}

TEST(Reduce, NanIsTheMaximum) {
  Array x = Array::of(DType::f32, {2, 3}, {1, std::nan(""), 3, 4, 5, 6}), y(DType::f32, {2, 1});
  run("max", {x.view()}, {y.view()}, ops::ReduceAttributes{{0, 1}});
  EXPECT_TRUE(std::isnan(y.get(0)));
  EXPECT_EQ(y.get(1), 6);
}

Array random_floats(const Shape& shape, Layout layout) {
  std::mt19937 random(5);
  std::normal_distribution<double> pick;
  Array x(DType::f32, shape, layout);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, pick(random));
  return x;
}

TEST(Reduce, BitsDoNotDependOnThreads) {
  for (const Shape& reduced : {Shape{1, 1}, Shape{1, 0}, Shape{0, 1}}) {
    for (const Shape& shape : {Shape{3000, 70}, Shape{70, 3000}}) {
      for (const Layout layout : {Layout::contiguous, Layout::reversed}) {
        Array x = random_floats(shape, layout);
        Shape out = shape;
        for (int axis = 0; axis < 2; ++axis) out[axis] = reduced[axis] != 0 ? 1 : out[axis];
        Array one(DType::f32, out), many(DType::f32, out);
        {
          const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
          run("sum", {x.view()}, {one.view()}, ops::ReduceAttributes{reduced});
        }
        run("sum", {x.view()}, {many.view()}, ops::ReduceAttributes{reduced});
        ASSERT_EQ(one.bytes(), many.bytes());
      }
    }
  }
}

TEST(Reduce, LongSumsOfFloatsStayAccurate) {
  Array x(DType::f32, {3000000}), y(DType::f32, {1});
  run("fill", {}, {x.view()}, ops::FillAttributes{0.1});
  run("sum", {x.view()}, {y.view()}, ops::ReduceAttributes{{1}});
  EXPECT_NEAR(y.get(0) / (3000000 * static_cast<double>(0.1f)), 1, 1e-6);
}

TEST(Argmax, FindsTheFirstLargest) {
  std::mt19937 random(6);
  for (const DType dtype : kNumeric) {
    for (const Shape& shape : {Shape{7}, Shape{5, 9}, Shape{2, 3, 4}, Shape{700, 60}}) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        Array x(dtype, shape, kLayouts[random() % 5]);
        x.randomize(random, 0, 5);
        Dims reduced = Dims::filled(shape.rank(), 0);
        reduced[axis] = 1;
        const Reduced expected = group(x, reduced);
        Array y(DType::i64, expected.shape);
        run("argmax", {x.view()}, {y.view()}, ops::AxisAttributes{axis});
        for (std::int64_t i = 0; i < y.numel(); ++i) {
          const auto& values = expected.groups[static_cast<std::size_t>(i)];
          ASSERT_EQ(y.get(i), static_cast<double>(std::max_element(values.begin(), values.end()) - values.begin()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ferry::testing
