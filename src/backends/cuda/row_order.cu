#include "src/backends/cuda/row_order.h"

#include "src/backends/cuda/for_each.h"

#if defined(__CUDACC__)
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#else
#include <algorithm>
#include <numeric>
#include <vector>
#endif

namespace ferry::cuda_backend {
namespace {

struct Enumerate {
  Indices rows;
  std::int64_t bound, lowest;
  std::int64_t* row;
  std::int64_t* position;
  FaultSink sink;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t value = rows[i];
    if (value < lowest || value >= bound) sink.raise(i, value);
    row[i] = value < 0 || value >= bound ? -1 : value;
    position[i] = i;
  }
};

struct MarkBeginnings {
  RowOrder order;
  std::int64_t* into;

  FERRY_FUNCTOR void operator()(std::int64_t k) const { into[k] = order.begins(k) ? 1 : 0; }
};

#if defined(__CUDACC__)

// Both sorts of radix sort and scan are deterministic.
void sort_pairs(const std::int64_t* keys, std::int64_t* sorted_keys, const std::int64_t* values,
                std::int64_t* sorted_values, std::int64_t count) {
  LaunchScope& scope = LaunchScope::current();
  std::size_t bytes = 0;
  const auto sort = [&](void* scratch) {
    FERRY_CUDA(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values, count, 0, 64,
                                               scope.stream()));
  };
  sort(nullptr);
  sort(scope.scratch<std::byte>(static_cast<std::int64_t>(bytes)));
}

void exclusive_sum(std::int64_t* values, std::int64_t count) {
  LaunchScope& scope = LaunchScope::current();
  std::size_t bytes = 0;
  const auto scan = [&](void* scratch) {
    FERRY_CUDA(cub::DeviceScan::ExclusiveSum(scratch, bytes, values, values, count, scope.stream()));
  };
  scan(nullptr);
  scan(scope.scratch<std::byte>(static_cast<std::int64_t>(bytes)));
}

#else

void sort_pairs(const std::int64_t* keys, std::int64_t* sorted_keys, const std::int64_t* values,
                std::int64_t* sorted_values, std::int64_t count) {
  host_launch([=] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return keys[a] < keys[b]; });
    for (std::int64_t i = 0; i < count; ++i) {
      sorted_keys[i] = keys[order[static_cast<std::size_t>(i)]];
      sorted_values[i] = values[order[static_cast<std::size_t>(i)]];
    }
  });
}

void exclusive_sum(std::int64_t* values, std::int64_t count) {
  host_launch([=] { std::exclusive_scan(values, values + count, values, std::int64_t{0}); });
}

#endif

}  // namespace

RowOrder order_rows(const Indices& rows, std::int64_t count, std::int64_t bound, std::int64_t lowest,
                    const FaultSink& sink) {
  LaunchScope& scope = LaunchScope::current();
  std::int64_t* const row = scope.scratch<std::int64_t>(count);
  std::int64_t* const position = scope.scratch<std::int64_t>(count);
  const RowOrder order{count, scope.scratch<std::int64_t>(count), scope.scratch<std::int64_t>(count)};
  if (count == 0) return order;
  for_each(count, Enumerate{rows, bound, lowest, row, position, sink});
  sort_pairs(row, order.row, position, order.position, count);
  return order;
}

void count_beginnings(const RowOrder& order, std::int64_t* into) {
  if (order.count == 0) return;
  for_each(order.count, MarkBeginnings{order, into});
  exclusive_sum(into, order.count);
}

}  // namespace ferry::cuda_backend
