// Row-sparse gradients are dense ones in another form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ferry/ops.h>
#include "tests/support/generators.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 9, kFeatures = 5;

class RowSparseGradient : public OnBackend {
 protected:
  Tensor table(DType dtype = DType::f32) {
    return to_tensor(random_array({kRows, kFeatures}, -1, 1, dtype, random_), dtype);
  }
  // The table's gradient of a weighted sum of graph(table, kind).
  template <class Graph>
  Tensor gradient(const Array& values, DType dtype, GradientKind kind, const Graph& graph, bool* sparse = nullptr) {
    const Tensor leaf = to_tensor(values, dtype).set_requires_grad();
    const Tensor y = graph(leaf, kind);
    Random weights(5);
    y.backward(to_tensor(random_array(y.shape(), -1, 1, dtype, weights), dtype));
    if (sparse != nullptr) *sparse = leaf.row_sparse_grad().has_value();
    return leaf.grad();
  }
  template <class Graph>
  void expect_equal_forms(const Graph& graph, bool stays_sparse = true) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const Array values = random_array({kRows, kFeatures}, -1, 1, dtype, random_);
      bool sparse = false;
      const Array dense = to_array(gradient(values, dtype, GradientKind::dense, graph));
      const Array rows = to_array(gradient(values, dtype, GradientKind::row_sparse, graph, &sparse));
      EXPECT_EQ(sparse, stays_sparse);
      ASSERT_EQ(dense.shape, rows.shape);
      for (std::size_t i = 0; i < dense.values.size(); ++i) {
        EXPECT_NEAR(dense.values[i], rows.values[i], rounding(dtype, 4)) << i;
      }
    }
  }

  Random random_{11};
};

TEST_P(RowSparseGradient, OfEmbeddingWithDuplicates) {
  for (const auto& ids : {from_vector<std::int64_t>({3, 3, 0, 8, 3}), from_vector<std::int64_t>({}),
                          from_vector<std::int64_t>({1, 2, 2, 1}, {2, 2})}) {
    expect_equal_forms([&](const Tensor& t, GradientKind kind) { return embedding(t, ids, kind); });
  }
  expect_equal_forms([](const Tensor& t, GradientKind kind) {
    return embedding(t, from_vector<std::int32_t>({7, 7, 1}), kind);
  });
}

TEST_P(RowSparseGradient, OfBagsWithDuplicatesAndEmptyBags) {
  const Tensor ids = from_vector<std::int64_t>({4, 4, 2, 0, 4, 8}),
               offsets = from_vector<std::int64_t>({0, 0, 3, 3, 6, 6});
  for (const BagMode mode : {BagMode::sum, BagMode::mean}) {
    expect_equal_forms([&](const Tensor& t, GradientKind kind) { return embedding_bag(t, ids, offsets, mode, kind); });
  }
}

TEST_P(RowSparseGradient, OfTwoUsesOfOneTable) {
  expect_equal_forms([](const Tensor& t, GradientKind kind) {
    const Tensor first = embedding(t, from_vector<std::int64_t>({0, 1}), kind);
    return concat({first, embedding(t, from_vector<std::int32_t>({1, 8, 8}), kind)}, 0);
  });
}

TEST_P(RowSparseGradient, BesideADenseUse) {
  const Tensor ids = from_vector<std::int64_t>({0, 5, 5});
  expect_equal_forms(
      [&](const Tensor& t, GradientKind kind) {
        return concat({embedding(t, ids, kind), t * 2.0}, 0);
      },
      false);
  expect_equal_forms(
      [&](const Tensor& t, GradientKind kind) {
        return concat({t * 2.0, embedding(t, ids, kind)}, 0);
      },
      false);
}

TEST_P(RowSparseGradient, OfATableThatIsNoLeaf) {
  const Tensor ids = from_vector<std::int64_t>({0, 5, 5});
  expect_equal_forms([&](const Tensor& t, GradientKind kind) { return embedding(t * 2.0, ids, kind); }, false);
}

TEST_P(RowSparseGradient, TwoBackwardCallsAddUp) {
  const Tensor leaf = table().set_requires_grad();
  sum(embedding(leaf, from_vector<std::int64_t>({2, 2}), GradientKind::row_sparse)).backward();
  sum(embedding(leaf, from_vector<std::int64_t>({2, 0}), GradientKind::row_sparse)).backward();
  ASSERT_TRUE(leaf.row_sparse_grad().has_value());
  const Array gradient = to_array(leaf.grad());
  EXPECT_EQ(gradient.at({2, 0}), 3);
  EXPECT_EQ(gradient.at({0, 1}), 1);
  EXPECT_EQ(gradient.at({1, 1}), 0);
  sum(leaf * 1.0).backward();
  EXPECT_FALSE(leaf.row_sparse_grad().has_value());
  EXPECT_EQ(leaf.grad().to_vector<float>()[2 * kFeatures], 4);
}

TEST_P(RowSparseGradient, CoalescedRowsAreDistinctAndAscend) {
  const RowSparse rows{from_vector<std::int64_t>({5, -1, 2, 5, 2, 5}),
                       from_vector<float>({1, 10, 9, 9, 2, 20, 3, 30, 4, 40, 5, 50}, {6, 2}),
                       {kRows, 2}};
  const RowSparse coalesced = rows.coalesced();
  EXPECT_THAT(to_array(coalesced.rows).values, ElementsAre(2, 5, -1, -1, -1, -1));
  EXPECT_THAT(to_array(coalesced.values).values, ElementsAre(6, 60, 9, 90, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(to_array(coalesced.dense()).values, to_array(rows.dense()).values);
}

TEST_P(RowSparseGradient, NoRowsAreNoGradient) {
  const RowSparse rows{from_vector<std::int64_t>({}), from_vector<float>({}, {0, 2}), {3, 2}};
  EXPECT_THAT(to_array(rows.coalesced().dense()).values, ElementsAre(0, 0, 0, 0, 0, 0));
}

INSTANTIATE_TEST_SUITE_P(All, RowSparseGradient, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
