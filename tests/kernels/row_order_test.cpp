// The orders in which kernels work through the rows of a sparse gradient.
#include "src/backends/cpu/row_order.h"

#include <map>

#include "tests/kernels/test_array.h"

namespace ferry::testing {
namespace {

using cpu_backend::RowOrder;
using Positions = std::map<std::int64_t, std::vector<std::int64_t>>;

// Each row with its positions; fails where an order names a row twice or leaves places between segments.
Positions positions_in(const RowOrder& order) {
  Positions result;
  EXPECT_EQ(order.first.size(), order.rows.size() + 1);
  EXPECT_EQ(order.first.front(), 0);
  EXPECT_EQ(order.first.back(), static_cast<std::int64_t>(order.position.size()));
  for (std::size_t s = 0; s < order.rows.size(); ++s) {
    const auto begin = order.position.begin() + order.first[s], end = order.position.begin() + order.first[s + 1];
    EXPECT_LT(begin, end);
    EXPECT_TRUE(result.try_emplace(order.rows[s], begin, end).second) << "row " << order.rows[s] << " comes twice";
  }
  return result;
}

// Expects both orders of `rows` to hold what they should.
void check_orders(DType index, const std::vector<std::int64_t>& rows, bool by_occurrence) {
  Array indices(index, {static_cast<std::int64_t>(rows.size())});
  Positions expected;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (index == DType::i64) {
      indices.view().as<std::int64_t>()[i] = rows[i];
    } else {
      indices.view().as<std::int32_t>()[i] = static_cast<std::int32_t>(rows[i]);
    }
    if (rows[i] >= 0) expected[rows[i]].push_back(at);
  }
  const RowOrder sorted = cpu_backend::order_rows(indices.view()), grouped = cpu_backend::group_rows(indices.view());
  EXPECT_EQ(positions_in(sorted), expected);
  EXPECT_EQ(positions_in(grouped), expected);
  EXPECT_TRUE(std::ranges::is_sorted(sorted.rows));
  if (by_occurrence) {
    for (std::size_t s = 1; s < grouped.rows.size(); ++s) {
      EXPECT_LT(grouped.position[static_cast<std::size_t>(grouped.first[s - 1])],
                grouped.position[static_cast<std::size_t>(grouped.first[s])]);
    }
  } else {
    EXPECT_EQ(grouped.rows, sorted.rows);
  }
}

TEST(RowOrder, HoldsEachRowWithItsPositions) {
  std::mt19937_64 random(1);
  for (const DType index : {DType::i32, DType::i64}) {
    for (const std::size_t count : {0, 1, 2, 6, 500, 4096, 16384, 16385, 40000}) {
      for (const std::int64_t bound : {1, 90, 10'000'000}) {
        std::vector<std::int64_t> rows(count);
        for (auto& row : rows) row = std::uniform_int_distribution<std::int64_t>(-1, bound - 1)(random);
        check_orders(index, rows, count <= 16384);
      }
    }
  }
}

TEST(RowOrder, HoldsRowsOfTheWholeRange) {
  check_orders(DType::i64, {INT64_MAX, 0, -1, INT64_MAX - 1, INT64_MAX, 0, INT64_MIN}, true);
  check_orders(DType::i32, {INT32_MAX, 0, -1, INT32_MAX - 1, INT32_MAX, 0, INT32_MIN}, true);
}

TEST(RowOrder, FallsBackToSortingForRowsChosenToCollide) {
  // Of rows k / 0x9E3779B97F4A7C15 modulo 2^64 Fibonacci hashing makes k: one slot for all.
  constexpr std::uint64_t kInverse = 0xF1DE83E19937733DU;
  static_assert(kInverse * 0x9E3779B97F4A7C15U == 1);
  std::vector<std::int64_t> rows;
  for (std::uint64_t k = 1; rows.size() < 16384; ++k) {
    if (const auto row = static_cast<std::int64_t>(k * kInverse); row >= 0) rows.push_back(row);
  }
  check_orders(DType::i64, rows, false);
}

}  // namespace
}  // namespace ferry::testing
