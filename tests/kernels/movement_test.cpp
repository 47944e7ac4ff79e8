#include "src/ops/attributes.h"
#include "tests/kernels/test_array.h"

namespace ferry::testing {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                          DType::i32, DType::i64, DType::u8,  DType::boolean};

TEST(Copy, ConvertsBetweenAllTypesAndLayouts) {
  std::mt19937 random(1);
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      for (const Shape& shape : test_shapes()) {
        Array x(from, shape, kLayouts[random() % 5]), y(to, shape, kLayouts[random() % 3]);
        x.randomize(random);
        run("copy", {x.view()}, {y.view()});
        for (std::int64_t i = 0; i < x.numel(); ++i) {
          // A negative integer wraps in u8, a negative float saturates.
          const double value = to == DType::u8 && !is_floating(from) && x.get(i) < 0 ? x.get(i) + 256 : x.get(i);
          ASSERT_EQ(y.get(i), rounded(to, value)) << name_of(from) << " to " << name_of(to) << to_string(shape);
        }
        ASSERT_TRUE(y.guards_intact());
      }
    }
  }
}

TEST(Copy, TransposesInTiles) {
  std::mt19937 random(2);
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{33, 65}, Shape{2, 17, 100}, Shape{130, 3, 70}, Shape{300, 257}}) {
      Array x(dtype, shape, Layout::reversed), y(dtype, shape);
      x.randomize(random);
      run("copy", {x.view()}, {y.view()});
      ASSERT_EQ(y.values(), x.values()) << to_string(shape);
      EXPECT_TRUE(y.guards_intact());
    }
  }
}

TEST(Copy, SaturatesWhatAnIntegerCannotHold) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Array x = Array::of(DType::f32, {6}, {inf, -inf, nan, 1e20, -1e20, -1.5}), i32(DType::i32, {6}), u8(DType::u8, {6});
  run("copy", {x.view()}, {i32.view()});
  run("copy", {x.view()}, {u8.view()});
  EXPECT_EQ(i32.values(), (std::vector<double>{2147483647, -2147483648.0, 0, 2147483647, -2147483648.0, -1}));
  EXPECT_EQ(u8.values(), (std::vector<double>{255, 0, 0, 255, 0, 0}));
  Array wide = Array::of(DType::f64, {2}, {1e300, -1e300}), i64(DType::i64, {2});
  run("copy", {wide.view()}, {i64.view()});
  EXPECT_EQ(i64.view().as<std::int64_t>()[0], INT64_MAX);
  EXPECT_EQ(i64.view().as<std::int64_t>()[1], INT64_MIN);
}

TEST(Copy, KeepsAllBitsOf64BitIntegers) {
  Array x(DType::i64, {2}, Layout::gaps), y(DType::i64, {2});
  x.view().as<std::int64_t>()[0] = INT64_MAX;
  run("copy", {x.view()}, {y.view()});
  EXPECT_EQ(y.view().as<std::int64_t>()[0], INT64_MAX);
}

TEST(Fill, SetsEveryElementOfEveryTypeAndLayout) {
  for (const DType dtype : kAll) {
    for (const Shape& shape : test_shapes()) {
      for (const Layout layout : {Layout::contiguous, Layout::reversed, Layout::gaps, Layout::channels_last}) {
        Array y(dtype, shape, layout);
        run("fill", {}, {y.view()}, ops::FillAttributes{2.75});
        for (std::int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.get(i), rounded(dtype, 2.75));
        ASSERT_TRUE(y.guards_intact());
      }
    }
  }
}

// Past the size where stores bypass the cache, from a start that no vector is aligned to.
TEST(Fill, StreamsLargeArrays) {
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    const std::int64_t count = (std::int64_t{17} << 20) / size_of(dtype) + 5;
    Array y(dtype, {count});
    TensorView part = y.view();
    part.data = part.as<std::byte>() + 3 * size_of(dtype);
    part.shape = {count - 7};
    run("fill_", {part}, {part}, ops::FillAttributes{7});
    std::int64_t wrong = 0;
    for (std::int64_t i = 3; i < count - 4; i += i < 200 || i > count - 300 ? 1 : 61) wrong += y.get(i) != 7;
    EXPECT_EQ(wrong, 0);
    EXPECT_NE(y.get(2), 7);
    EXPECT_NE(y.get(count - 4), 7);
  }
}

TEST(Arange, CountsInEveryType) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    Array y(dtype, {9});
    run("arange", {}, {y.view()}, ops::ArangeAttributes{3, 2});
    for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(y.get(i), 3.0 + 2.0 * static_cast<double>(i));
  }
}

TEST(ShapeKernel, WritesExtents) {
  Array x(DType::f32, {4, 0, 6}), y(DType::i64, {3});
  run("shape", {x.view()}, {y.view()});
  EXPECT_EQ(y.values(), (std::vector<double>{4, 0, 6}));
}

std::int64_t place_in(const Shape& shape, const Dims& index) {
  std::int64_t place = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) place = place * shape[axis] + index[axis];
  return place;
}

Dims index_in(const Shape& shape, std::int64_t place) {
  Dims index = Dims::filled(shape.rank(), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = place % shape[axis];
    place /= shape[axis];
  }
  return index;
}

TEST(Slice, AndItsBackwardFollowTheIndexRule) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const int rank = 1 + static_cast<int>(random() % 4);
    Shape shape, part;
    ops::SliceAttributes attributes;
    for (int axis = 0; axis < rank; ++axis) {
      const auto extent = static_cast<std::int64_t>(random() % 7);
      const std::int64_t start = extent == 0 ? 0 : static_cast<std::int64_t>(random() % 1000) % extent;
      const std::int64_t step = 1 + static_cast<std::int64_t>(random() % 3);
      shape.push_back(extent);
      attributes.starts.push_back(start);
      attributes.steps.push_back(step);
      part.push_back(static_cast<std::int64_t>(random() % 1000) % ((extent - start + step - 1) / step + 1));
    }
    const DType dtype = kAll[random() % 8];
    Array x(dtype, shape, kLayouts[random() % 5]), y(dtype, part), dx(dtype, shape, kLayouts[random() % 3]);
    x.randomize(random);
    run(attributes.steps == Dims::filled(rank, 1) ? "crop" : "slice", {x.view()}, {y.view()}, attributes);
    run("slice_backward", {y.view()}, {dx.view()}, attributes);
    std::vector<double> expected(static_cast<std::size_t>(x.numel()));
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      Dims index = index_in(part, i);
      for (int axis = 0; axis < rank; ++axis)
        index[axis] = attributes.starts[axis] + index[axis] * attributes.steps[axis];
      const std::int64_t place = place_in(shape, index);
      ASSERT_EQ(y.get(i), x.get(place));
      expected[static_cast<std::size_t>(place)] = y.get(i);
    }
    ASSERT_EQ(dx.values(), expected);
    ASSERT_TRUE(dx.guards_intact() && y.guards_intact());
  }
}

TEST(Concat, JoinsAlongAnyAxis) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    const int rank = 1 + static_cast<int>(random() % 3), axis = static_cast<int>(random() % 1000) % rank;
    Shape shape;
    for (int i = 0; i < rank; ++i) shape.push_back(1 + static_cast<std::int64_t>(random() % 4));
    std::vector<Array> parts;
    std::vector<TensorView> views;
    Shape whole = shape;
    whole[axis] = 0;
    for (int i = 0; i < 3; ++i) {
      shape[axis] = static_cast<std::int64_t>(random() % 4);
      whole[axis] += shape[axis];
      parts.emplace_back(DType::f32, shape, kLayouts[random() % 5]).randomize(random);
    }
    for (Array& part : parts) views.push_back(part.view());
    Array y(DType::f32, whole);
    run("concat", views, {y.view()}, ops::AxisAttributes{axis});
    for (std::int64_t i = 0; i < y.numel(); ++i) {
      Dims index = index_in(whole, i);
      std::size_t part = 0;
      while (index[axis] >= parts[part].shape()[axis]) index[axis] -= parts[part++].shape()[axis];
      ASSERT_EQ(y.get(i), parts[part].get(place_in(parts[part].shape(), index)));
    }
  }
}

}  // namespace
}  // namespace ferry::testing
