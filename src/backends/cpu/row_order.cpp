#include "src/backends/cpu/row_order.h"

#include <hwy/contrib/sort/vqsort.h>

#include <bit>
#include <utility>

#include "src/backends/cpu/index_check.h"

namespace ferry::cpu_backend {

namespace {

// Calls visit(row, position) in ascending order of rows, then positions. Keys of row and position are distinct, so that
// any sort gives the one order.
template <class Visit>
void visit_wide(const TensorView& indices, const Visit& visit) {
  std::vector<hwy::uint128_t> keys;
  const std::int64_t count = indices.numel();
  keys.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = index_at(indices, i);
    if (row >= 0) keys.push_back({static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(row)});
  }
  hwy::Sorter()(keys.data(), keys.size(), hwy::SortAscending());
  for (const auto& key : keys) visit(static_cast<std::int64_t>(key.hi), static_cast<std::int64_t>(key.lo));
}

// The same where row and position fit 64 bits, which sort in less than half the time.
template <class Visit>
void visit_narrow(const TensorView& indices, int position_bits, const Visit& visit) {
  std::vector<std::uint64_t> keys;
  const std::int64_t count = indices.numel();
  keys.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = index_at(indices, i);
    if (row >= 0) keys.push_back(static_cast<std::uint64_t>(row) << position_bits | static_cast<std::uint64_t>(i));
  }
  hwy::Sorter()(keys.data(), keys.size(), hwy::SortAscending());
  const std::uint64_t mask = (std::uint64_t{1} << position_bits) - 1;
  for (const std::uint64_t key : keys) {
    visit(static_cast<std::int64_t>(key >> position_bits), static_cast<std::int64_t>(key & mask));
  }
}

int bits(std::int64_t value) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value))); }

std::int64_t largest(const TensorView& indices) {
  std::int64_t result = 0;
  for (std::int64_t i = 0; i < indices.numel(); ++i) result = std::max(result, index_at(indices, i));
  return result;
}

// Gives distinct rows numbers in the order in which they first come, by hashing with linear probing.
class RowNumbers {
 public:
  explicit RowNumbers(std::int64_t most) : shift_(63 - bits(most)), slots_(std::size_t{2} << bits(most), kFree) {
    rows_.reserve(static_cast<std::size_t>(most));
  }

  std::int32_t number_of(std::int64_t row) {
    // Fibonacci hashing: the high bits of the product depend on all of the row's.
    auto slot = static_cast<std::size_t>((static_cast<std::uint64_t>(row) * 0x9E3779B97F4A7C15U) >> shift_);
    for (; slots_[slot] != kFree; slot = (slot + 1) & (slots_.size() - 1)) {
      if (rows_[static_cast<std::size_t>(slots_[slot])] == row) return slots_[slot];
      ++collisions_;
    }
    slots_[slot] = static_cast<std::int32_t>(rows_.size());
    rows_.push_back(row);
    return slots_[slot];
  }

  std::int64_t collisions() const { return collisions_; }
  std::vector<std::int64_t> take_rows() { return std::move(rows_); }

 private:
  static constexpr std::int32_t kFree = -1;
  int shift_;
  std::vector<std::int32_t> slots_;
  std::vector<std::int64_t> rows_;
  std::int64_t collisions_ = 0;
};

}  // namespace

RowOrder order_rows(const TensorView& indices) {
  const auto count = static_cast<std::size_t>(indices.numel());
  RowOrder order;
  order.position.reserve(count);
  order.rows.reserve(count);
  order.first.reserve(count + 1);
  const auto add = [&](std::int64_t row, std::int64_t position) {
    if (order.rows.empty() || order.rows.back() != row) {
      order.rows.push_back(row);
      order.first.push_back(static_cast<std::int64_t>(order.position.size()));
    }
    order.position.push_back(position);
  };
  const int position_bits = bits(indices.numel());
  if (position_bits + bits(largest(indices)) <= 64) {
    visit_narrow(indices, position_bits, add);
  } else {
    visit_wide(indices, add);
  }
  order.first.push_back(static_cast<std::int64_t>(order.position.size()));
  return order;
}

RowOrder group_rows(const TensorView& indices) {
  // Hashing is slower than sorting where its table leaves the nearest caches, or where rows were chosen to collide.
  constexpr std::int64_t kMost = 16384, kCollisions = 8;
  const std::int64_t count = indices.numel();
  if (count > kMost) return order_rows(indices);
  RowNumbers numbers(count);
  std::vector<std::int32_t> number(static_cast<std::size_t>(count), -1);
  std::vector<std::int64_t> next;  // the place in `position` for a row's next value; its number of values at first
  next.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = index_at(indices, i);
    if (row < 0) continue;
    const std::int32_t s = numbers.number_of(row);
    if (static_cast<std::size_t>(s) == next.size()) next.push_back(0);
    ++next[static_cast<std::size_t>(s)];
    number[static_cast<std::size_t>(i)] = s;
    if (numbers.collisions() > kCollisions * count) return order_rows(indices);
  }
  RowOrder order{.position = {}, .rows = numbers.take_rows(), .first = {}};
  order.first.reserve(order.rows.size() + 1);
  std::int64_t places = 0;
  for (std::int64_t& values : next) {
    order.first.push_back(places);
    places += std::exchange(values, places);
  }
  order.first.push_back(places);
  order.position.resize(static_cast<std::size_t>(places));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t s = number[static_cast<std::size_t>(i)];
    if (s >= 0) order.position[static_cast<std::size_t>(next[static_cast<std::size_t>(s)]++)] = i;
  }
  return order;
}

}  // namespace ferry::cpu_backend
