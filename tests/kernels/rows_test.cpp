#include <fmt/format.h>
#include <tbb/global_control.h>

#include <limits>
#include <map>

#include "src/ops/attributes.h"
#include "tests/kernels/test_array.h"

namespace ferry::testing {
namespace {

// Of a result whose size is about `scale`, computed in the dtype or in float and then rounded.
double tolerance(DType dtype, double scale = 1) {
  const double step = dtype == DType::f64 ? 1e-14 : dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 2e-3 : 1.6e-2;
  return step * std::max(1.0, scale);
}

TEST(L2Normalize, ForwardAndBackwardMatchReference) {
  std::mt19937 random(1);
  for (const DType dtype : kFloats) {
    for (const Shape& shape :
         {Shape{7}, Shape{5, 9}, Shape{2, 3, 40}, Shape{300, 150}, Shape{2, 5, 3, 4}, Shape{0, 4}}) {
      for (int axis = 0; axis < shape.rank(); ++axis) {
        Shape one = shape;
        one[axis] = 1;
        Array x(dtype, shape, kLayouts[random() % 5]), dy(dtype, shape, kLayouts[random() % 5]);
        Array y(dtype, shape, kLayouts[random() % 3]), dx(dtype, shape), norm(dtype, one);
        x.randomize(random, -4, 4);
        dy.randomize(random, -4, 4);
        const ops::L2NormalizeAttributes attributes{axis, 1e-3};
        run("l2_normalize", {x.view()}, {y.view(), norm.view()}, attributes);
        run("l2_normalize_backward", {dy.view(), y.view(), norm.view()}, {dx.view()}, attributes);
        std::int64_t inner = 1;
        for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
        for (std::int64_t row = 0; row < norm.numel(); ++row) {
          const std::int64_t first = row / inner * inner * shape[axis] + row % inner;
          double squares = 0, projection = 0;
          for (std::int64_t k = 0; k < shape[axis]; ++k) squares += x.get(first + k * inner) * x.get(first + k * inner);
          const double length = std::sqrt(squares), divisor = std::max(length, 1e-3);
          ASSERT_NEAR(norm.get(row), length, tolerance(dtype, length));
          for (std::int64_t k = 0; k < shape[axis]; ++k) {
            projection += dy.get(first + k * inner) * x.get(first + k * inner) / divisor;
          }
          for (std::int64_t k = 0; k < shape[axis]; ++k) {
            const std::int64_t i = first + k * inner;
            const double unit = x.get(i) / divisor;
            const double gradient = length < 1e-3 ? dy.get(i) / 1e-3 : (dy.get(i) - unit * projection) / length;
            ASSERT_NEAR(y.get(i), unit, tolerance(dtype));
            ASSERT_NEAR(dx.get(i), gradient,
                        tolerance(dtype, std::fabs(gradient) + std::fabs(projection) / divisor * 4));
          }
        }
        ASSERT_TRUE(y.guards_intact() && dx.guards_intact() && norm.guards_intact());
      }
    }
  }
}

TEST(SoftmaxCrossEntropy, ForwardAndBackwardMatchReference) {
  std::mt19937 random(2);
  for (const DType dtype : kFloats) {
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 10}, Shape{5, 33}, Shape{0, 4}, Shape{400, 100}}) {
      for (const DType index : {DType::i32, DType::i64}) {
        const std::int64_t rows = shape[0], classes = shape[1];
        Array logits(dtype, shape), labels(index, {rows}), loss(wide, {rows}), log_sum(wide, {rows});
        Array dloss(wide, {rows}, Layout::expanded), dlogits(dtype, shape);
        logits.randomize(random);
        labels.randomize(random, 0, static_cast<int>(classes - 1));
        dloss.randomize(random);
        run("cross_entropy", {logits.view(), labels.view()}, {loss.view(), log_sum.view()});
        run("cross_entropy_backward", {dloss.view(), logits.view(), labels.view(), log_sum.view()}, {dlogits.view()});
        for (std::int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits.get(row * classes + c));
          const auto label = static_cast<std::int64_t>(labels.get(row));
          ASSERT_NEAR(log_sum.get(row), std::log(sum), tolerance(wide, std::log(sum)));
          ASSERT_NEAR(loss.get(row), std::log(sum) - logits.get(row * classes + label), tolerance(wide, 16));
          for (std::int64_t c = 0; c < classes; ++c) {
            const double p = std::exp(logits.get(row * classes + c)) / sum;
            ASSERT_NEAR(dlogits.get(row * classes + c), dloss.get(row) * (p - (c == label)),
                        tolerance(dtype, std::fabs(dloss.get(row))));
          }
        }
        ASSERT_TRUE(dlogits.guards_intact() && loss.guards_intact());
      }
    }
  }
}

TEST(SoftmaxCrossEntropy, NamesALabelOutOfRange) {
  Array logits(DType::f32, {3, 10}), labels = Array::of(DType::i64, {3}, {0, 10, 2}), loss(DType::f32, {3}),
                                     log_sum(DType::f32, {3});
  EXPECT_EQ(message_of([&] {
              run("cross_entropy", {logits.view(), labels.view()}, {loss.view(), log_sum.view()});
            }),
            "cross_entropy: labels[1] = 10 is out of range for logits [3, 10], which takes 0 to 9");
}

// Large and small logits keep full precision: the loss is computed relative to the largest.
TEST(SoftmaxCrossEntropy, DoesNotOverflow) {
  Array logits = Array::of(DType::f32, {2, 3}, {1e4, 1e4, -1e4, -1e30, 0, -1e30}),
        labels = Array::of(DType::i64, {2}, {0, 1});
  Array loss(DType::f32, {2}), log_sum(DType::f32, {2});
  run("cross_entropy", {logits.view(), labels.view()}, {loss.view(), log_sum.view()});
  EXPECT_NEAR(loss.get(0), std::log(2.0), 1e-6);
  EXPECT_EQ(loss.get(1), 0);
}

TEST(Embedding, GathersAndScatters) {
  std::mt19937 random(3);
  for (const DType dtype : kFloats) {
    for (const DType index : {DType::i32, DType::i64}) {
      for (const std::int64_t width : {1, 7, 150, 300}) {
        const std::int64_t rows = 60;
        Array table(dtype, {rows, width}), ids(index, {40, 5}), y(dtype, {40, 5, width}), dtable(dtype, {rows, width});
        table.randomize(random);
        ids.randomize(random, 0, static_cast<int>(rows - 1));
        run("embedding", {table.view(), ids.view()}, {y.view()}, ops::EmbeddingAttributes{rows});
        Array dy(dtype, {40, 5, width});
        dy.randomize(random, -3, 3);
        run("embedding_dense_backward", {dy.view(), ids.view()}, {dtable.view()}, ops::EmbeddingAttributes{rows});
        std::vector<double> expected(static_cast<std::size_t>(rows * width));
        for (std::int64_t i = 0; i < ids.numel(); ++i) {
          const auto row = static_cast<std::int64_t>(ids.get(i));
          for (std::int64_t d = 0; d < width; ++d) {
            ASSERT_EQ(y.get(i * width + d), table.get(row * width + d));
            expected[static_cast<std::size_t>(row * width + d)] += dy.get(i * width + d);
          }
        }
        ASSERT_EQ(dtable.values(), expected);
        ASSERT_TRUE(y.guards_intact() && dtable.guards_intact());
      }
    }
  }
}

TEST(Embedding, NamesAnIdOutOfRangeAndWritesNothing) {
  Array table(DType::f32, {10, 4}), ids = Array::of(DType::i32, {2, 3}, {0, 1, 9, 12, -1, 2}), y(DType::f32, {2, 3, 4});
  run("fill", {}, {y.view()}, ops::FillAttributes{5});
  const auto before = y.bytes();
  EXPECT_EQ(message_of([&] {
              run("embedding", {table.view(), ids.view()}, {y.view()});
            }),
            "embedding: ids[3] = 12 is out of range for table [10, 4], which takes 0 to 9");
  ids.set(3, 3);
  EXPECT_NE(message_of([&] {
              run("embedding", {table.view(), ids.view()}, {y.view()});
            }).find("ids[4] = -1"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              run("embedding_dense_backward", {y.view(), ids.view()}, {table.view()});
            }).find("ids[4] = -1"),
            std::string::npos);
  EXPECT_EQ(y.bytes(), before);
}

TEST(Embedding, FindsIdsAtTheEndsOfTheirType) {
  constexpr int kCount = 37;
  Array table(DType::f32, {10, 4}), y(DType::f32, {kCount, 4});
  for (const auto& [dtype, extremes] :
       {std::pair{DType::i32, std::vector<std::int64_t>{std::numeric_limits<std::int32_t>::min(),
                                                        std::numeric_limits<std::int32_t>::max()}},
        std::pair{DType::i64, std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(),
                                                        std::numeric_limits<std::int64_t>::max()}}}) {
    for (std::int64_t at = 0; at < kCount; ++at) {
      for (const std::int64_t extreme : {extremes[0], extremes[0] + 9, extremes[0] + 10, extremes[1], extremes[1] - 9,
                                         std::int64_t{-1}, std::int64_t{10}}) {
        Array ids = Array::of(dtype, {kCount}, std::vector<double>(kCount, 9));
        if (dtype == DType::i64) {
          ids.view().as<std::int64_t>()[at] = extreme;
        } else {
          ids.view().as<std::int32_t>()[at] = static_cast<std::int32_t>(extreme);
        }
        EXPECT_EQ(
            message_of([&] {
              run("embedding", {table.view(), ids.view()}, {y.view()});
            }),
            fmt::format("embedding: ids[{}] = {} is out of range for table [10, 4], which takes 0 to 9", at, extreme));
      }
    }
  }
}

TEST(EmbeddingBag, SumsAndAveragesBags) {
  std::mt19937 random(4);
  for (const DType dtype : kFloats) {
    for (const DType index : {DType::i32, DType::i64}) {
      for (const bool mean : {false, true}) {
        const std::vector<double> starts = {0, 0, 3, 3, 10, 64};
        const std::int64_t rows = 20, width = 9, count = 64, bags = 6;
        Array table(dtype, {rows, width}), ids(index, {count}), y(dtype, {bags, width}), values(dtype, {count, width});
        Array offsets = Array::of(index, {bags}, starts), dy(dtype, {bags, width});
        table.randomize(random, -3, 3);
        dy.randomize(random, -3, 3);
        ids.randomize(random, 0, static_cast<int>(rows - 1));
        run("embedding_bag", {table.view(), ids.view(), offsets.view()}, {y.view()},
            ops::EmbeddingAttributes{rows, mean});
        run("embedding_bag_backward", {dy.view(), offsets.view()}, {values.view()},
            ops::EmbeddingAttributes{count, mean});
        for (std::int64_t bag = 0; bag < bags; ++bag) {
          const auto begin = static_cast<std::int64_t>(starts[static_cast<std::size_t>(bag)]);
          const auto end =
              bag + 1 < bags ? static_cast<std::int64_t>(starts[static_cast<std::size_t>(bag) + 1]) : count;
          const double scale = mean && end > begin ? 1.0 / static_cast<double>(end - begin) : 1;
          for (std::int64_t d = 0; d < width; ++d) {
            double sum = 0;
            for (std::int64_t i = begin; i < end; ++i) {
              sum += table.get(static_cast<std::int64_t>(ids.get(i)) * width + d);
              ASSERT_NEAR(values.get(i * width + d), dy.get(bag * width + d) * scale, tolerance(dtype, 2));
            }
            ASSERT_NEAR(y.get(bag * width + d), sum * scale, tolerance(dtype, std::fabs(sum * scale)));
          }
        }
      }
    }
  }
}

TEST(EmbeddingBag, RejectsBadOffsetsAndIds) {
  Array table(DType::f32, {4, 2}), y(DType::f32, {2, 2});
  Array ids = Array::of(DType::i64, {3}, {0, 1, 2}), bad_ids = Array::of(DType::i64, {3}, {0, 4, 2});
  const auto message = [&](Array& used, const std::vector<double>& offsets) {
    Array starts = Array::of(DType::i64, {2}, offsets);
    return message_of([&] {
      run("embedding_bag", {table.view(), used.view(), starts.view()}, {y.view()}, ops::EmbeddingAttributes{4});
    });
  };
  EXPECT_EQ(message(ids, {0, 2}), "");
  EXPECT_NE(message(ids, {1, 2}).find("offsets[0] = 1 must be 0"), std::string::npos);
  EXPECT_NE(message(ids, {0, 4}).find("offsets[0] = 0"), std::string::npos);
  EXPECT_NE(message(ids, {0, -1}).find("must not decrease"), std::string::npos);
  EXPECT_NE(message(bad_ids, {0, 1}).find("ids[1] = 4"), std::string::npos);
}

TEST(Coalesce, SumsDuplicatesInInputOrder) {
  std::mt19937 random(5);
  for (const DType dtype : kFloats) {
    for (const DType index : {DType::i32, DType::i64}) {
      for (const std::int64_t count : {0, 1, 6, 500}) {
        const std::int64_t width = 11;
        Array rows(index, {count}), values(dtype, {count, width}), out_rows(index, {count}), out(dtype, {count, width});
        rows.randomize(random, -1, 90);
        values.randomize(random, -3, 3);
        run("coalesce", {rows.view(), values.view()}, {out_rows.view(), out.view()});
        std::map<double, std::vector<double>> expected;
        for (std::int64_t i = 0; i < count; ++i) {
          if (rows.get(i) < 0) continue;
          auto& sum = expected.try_emplace(rows.get(i), static_cast<std::size_t>(width)).first->second;
          for (std::int64_t d = 0; d < width; ++d) sum[static_cast<std::size_t>(d)] += values.get(i * width + d);
        }
        std::int64_t place = 0;
        for (const auto& [row, sum] : expected) {
          ASSERT_EQ(out_rows.get(place), row);
          for (std::int64_t d = 0; d < width; ++d)
            ASSERT_EQ(out.get(place * width + d), sum[static_cast<std::size_t>(d)]);
          ++place;
        }
        for (; place < count; ++place) {
          ASSERT_EQ(out_rows.get(place), -1);
          for (std::int64_t d = 0; d < width; ++d) ASSERT_EQ(out.get(place * width + d), 0);
        }
      }
    }
  }
}

TEST(ScatterAddRows, AddsAndSkips) {
  std::mt19937 random(6);
  for (const DType dtype : kFloats) {
    Array dense(dtype, {30, 7}), rows(DType::i64, {80}), values(dtype, {80, 7});
    dense.randomize(random, -3, 3);
    rows.randomize(random, -1, 29);
    values.randomize(random, -3, 3);
    auto expected = dense.values();
    for (std::int64_t i = 0; i < 80; ++i) {
      for (std::int64_t d = 0; d < 7 && rows.get(i) >= 0; ++d) {
        expected[static_cast<std::size_t>(static_cast<std::int64_t>(rows.get(i)) * 7 + d)] += values.get(i * 7 + d);
      }
    }
    run("scatter_add_rows_", {dense.view(), rows.view(), values.view()}, {dense.view()});
    EXPECT_EQ(dense.values(), expected);
    rows.set(79, 30);
    EXPECT_NE(message_of([&] {
                run("scatter_add_rows_", {dense.view(), rows.view(), values.view()}, {dense.view()});
              }).find("rows[79] = 30 is out of range for dense [30, 7]"),
              std::string::npos);
    EXPECT_EQ(dense.values(), expected);
  }
}

TEST(Rows, BitsDoNotDependOnThreads) {
  std::mt19937 random(9);
  Array table(DType::f32, {500, 150}), ids(DType::i64, {3000}), dy(DType::f32, {3000, 150});
  table.randomize(random);
  ids.randomize(random, 0, 499);
  std::normal_distribution<double> pick;
  for (std::int64_t i = 0; i < dy.numel(); ++i) dy.set(i, pick(random));
  const auto all = [&] {
    Array dtable(DType::f32, {500, 150}), rows(DType::i64, {3000}), sums(DType::f32, {3000, 150}),
        y(DType::f32, {3000, 150}), norm(DType::f32, {3000, 1});
    run("embedding_dense_backward", {dy.view(), ids.view()}, {dtable.view()}, ops::EmbeddingAttributes{500});
    run("coalesce", {ids.view(), dy.view()}, {rows.view(), sums.view()});
    run("l2_normalize", {dy.view()}, {y.view(), norm.view()}, ops::L2NormalizeAttributes{1});
    return std::vector{dtable.bytes(), sums.bytes(), y.bytes()};
  };
  std::vector<std::vector<std::byte>> one;
  {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
    one = all();
  }
  EXPECT_EQ(all(), one);
}

}  // namespace
}  // namespace ferry::testing
