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

// Indices up to this many are grouped by hashing: its table would leave the nearest caches with more.
constexpr std::int64_t kMostGrouped = 16384;

// What one ordering leaves to the next on its thread: the allocator would hand the pages back to the system each time,
// and fetching them anew costs as much as the ordering.
struct Kept {
  std::vector<std::int64_t> position, rows, first;  // empty
  std::vector<std::int32_t> slots, numbers;
};
thread_local Kept kept;

void keep(std::vector<std::int64_t>& to, std::vector<std::int64_t>& from) {
  if (from.capacity() <= to.capacity() || from.capacity() > static_cast<std::size_t>(kMostGrouped) + 1) return;
  to = std::move(from);
  to.clear();
}

// Gives distinct rows numbers in the order in which they first come, by hashing with linear probing, and sorts the
// positions by them. False where too many rows collide, since they were chosen to: sorting is faster.
template <class Index>
bool group(const Index* indices, std::int64_t count, RowOrder& order) {
  constexpr std::int32_t kFree = -1, kLeftOut = -1;
  constexpr std::int64_t kCollisions = 8;  // for each index
  Kept& scratch = kept;
  const std::size_t slot_count = std::size_t{2} << bits(count);
  const int shift = 63 - bits(count);
  scratch.slots.assign(slot_count, kFree);
  scratch.numbers.resize(static_cast<std::size_t>(count));
  order.rows.resize(static_cast<std::size_t>(count));
  order.first.resize(static_cast<std::size_t>(count) + 1);
  std::int32_t *const slots = scratch.slots.data(), *const numbers = scratch.numbers.data();
  std::int64_t *const rows = order.rows.data(), *const first = order.first.data();
  std::int32_t used = 0;
  std::int64_t collisions = kCollisions * count;
  // first[s + 1]: how often row s comes.
  for (std::int64_t i = 0; i < count; ++i) {
    const auto row = static_cast<std::int64_t>(indices[i]);
    numbers[i] = kLeftOut;
    if (row < 0) continue;
    // Fibonacci hashing: the high bits of the product depend on all of the row's.
    auto slot = static_cast<std::size_t>((static_cast<std::uint64_t>(row) * 0x9E3779B97F4A7C15U) >> shift);
    std::int32_t s = slots[slot];
    while (s != kFree && rows[s] != row) {
      if (--collisions < 0) return false;
      slot = (slot + 1) & (slot_count - 1);
      s = slots[slot];
    }
    if (s == kFree) {
      s = slots[slot] = used++;
      rows[s] = row;
      first[s + 1] = 0;
    }
    ++first[s + 1];
    numbers[i] = s;
  }
  order.rows.resize(static_cast<std::size_t>(used));
  order.first.resize(static_cast<std::size_t>(used) + 1);
  first[0] = 0;
  std::int64_t places = 0;
  for (std::int32_t s = 0; s < used; ++s) places += std::exchange(first[s + 1], places);
  order.position.resize(static_cast<std::size_t>(places));
  std::int64_t* const position = order.position.data();
  // first[s + 1] is the next place of row s, and at last where those of the next row begin.
  for (std::int64_t i = 0; i < count; ++i) {
    if (numbers[i] != kLeftOut) position[first[numbers[i] + 1]++] = i;
  }
  return true;
}

}  // namespace

RowOrder::RowOrder() : position(std::move(kept.position)), rows(std::move(kept.rows)), first(std::move(kept.first)) {}

RowOrder::~RowOrder() {
  keep(kept.position, position);
  keep(kept.rows, rows);
  keep(kept.first, first);
}

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
  const std::int64_t count = indices.numel();
  if (count > kMostGrouped) return order_rows(indices);
  RowOrder order;
  const bool grouped = indices.dtype == DType::i64 ? group(indices.as<const std::int64_t>(), count, order)
                                                   : group(indices.as<const std::int32_t>(), count, order);
  if (!grouped) return order_rows(indices);
  return order;
}

}  // namespace ferry::cpu_backend
