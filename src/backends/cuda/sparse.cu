// Embedding tables and their row-sparse gradients. Duplicates are added in input order.
#include <limits>
#include <string>

#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/row_order.h"
#include "src/backends/cuda/views.h"
#include "src/base/check.h"
#include "src/ops/attributes.h"

namespace ferry::cuda_backend {
namespace {

template <class Word>
struct Lookup {
  std::int64_t width, bound;
  const Word* table;
  Indices ids;
  Word* y;
  FaultSink sink;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t place = i / width, id = ids[place];
    if (id < 0 || id >= bound) {
      if (i % width == 0) sink.raise(place, id);
      return;
    }
    y[i] = table[id * width + i % width];
  }
};

// Adds the values of each row where it begins. `adds`: to what is there.
template <class T>
struct AddRows {
  RowOrder order;
  std::int64_t width;
  const T* values;
  T* dense;
  bool adds;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t first = i / width, column = i % width;
    if (!order.begins(first)) return;
    const std::int64_t row = order.row[first];
    Compute<T> sum = adds ? load(dense[row * width + column]) : Compute<T>(0);
    for (std::int64_t k = first; k < order.count && order.row[k] == row; ++k) {
      sum += load(values[order.position[k] * width + column]);
    }
    dense[row * width + column] = store<T>(sum);
  }
};

// The same into rows of their own, one after another.
template <class T>
struct CompactRows {
  RowOrder order;
  const std::int64_t* place;
  std::int64_t width;
  const T* values;
  AnyInteger rows;
  T* sums;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t first = i / width, column = i % width;
    if (!order.begins(first)) return;
    const std::int64_t row = order.row[first], to = place[first];
    Compute<T> sum = 0;
    for (std::int64_t k = first; k < order.count && order.row[k] == row; ++k) {
      sum += load(values[order.position[k] * width + column]);
    }
    sums[to * width + column] = store<T>(sum);
    if (column == 0) rows.set(to, row);
  }
};

// Ids of each bag, as half-open ranges. `sink` is told of offsets that begin elsewhere, decrease or pass the ids.
struct Bags {
  Indices offsets;
  std::int64_t count, ids;
  bool mean;
  FaultSink sink;

  struct Range {
    std::int64_t begin, end;
    double scale;
  };
  // Empty where offsets are wrong.
  FERRY_FUNCTOR Range range(std::int64_t bag, bool reports) const {
    const std::int64_t begin = offsets[bag], end = bag + 1 < count ? offsets[bag + 1] : ids;
    if (begin < 0 || begin > end || end > ids || (bag == 0 && begin != 0)) {
      if (reports) sink.raise(bag, begin);
      return {0, 0, 1};
    }
    return {begin, end, mean && end > begin ? 1 / static_cast<double>(end - begin) : 1};
  }
};

template <class T>
struct BagSums {
  Bags bags;
  std::int64_t width, bound;
  const T* table;
  Indices ids;
  T* y;
  FaultSink sink;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t bag = i / width, column = i % width;
    const Bags::Range range = bags.range(bag, column == 0);
    Compute<T> sum = 0;
    for (std::int64_t k = range.begin; k < range.end; ++k) {
      const std::int64_t id = ids[k];
      if (id >= 0 && id < bound) {
        sum += load(table[id * width + column]);
      } else if (column == 0) {
        sink.raise(k, id);
      }
    }
    y[i] = store<T>(sum * static_cast<Compute<T>>(range.scale));
  }
};

// Each id's row is its bag's gradient.
template <class T>
struct BagRows {
  Bags bags;
  std::int64_t width;
  const T* dy;
  T* values;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t bag = i / width, column = i % width;
    const Bags::Range range = bags.range(bag, column == 0);
    const T value = store<T>(load(dy[i]) * static_cast<Compute<T>>(range.scale));
    for (std::int64_t k = range.begin; k < range.end; ++k) values[k * width + column] = value;
  }
};

FaultSink table_sink(const KernelContext& context, std::string_view name, const TensorView& table,
                     std::string_view into, std::int64_t lowest = 0) {
  return index_sink(context, name, into, table.shape, lowest, table.shape[0]);
}

void embedding(const KernelContext& context) {
  const TensorView &table = context.in(0), &ids = context.in(1), &y = context.out();
  const FaultSink sink = table_sink(context, "ids", table, "table");
  visit_words(context, y.dtype, [&](auto tag) {
    using Word = typename decltype(tag)::type;
    for_each(y.numel(), Lookup<Word>{table.shape.back(), table.shape[0], table.as<const Word>(), Indices(ids),
                                     y.as<Word>(), sink});
  });
}

Bags bags_of(const KernelContext& context, const TensorView& offsets, std::int64_t ids) {
  FERRY_CHECK(offsets.numel() > 0 || ids == 0, InvalidArgument, "{}: {} ids but no bag: offsets is empty", context.op,
              ids);
  const std::string text = std::string(context.op) +
                           ": offsets[{position}] = {value}: offsets begin with 0, must not decrease nor pass the " +
                           std::to_string(ids) + " ids";
  return {Indices(offsets), offsets.numel(), ids, context.attributes.as<ops::EmbeddingAttributes>().mean,
          LaunchScope::current().fault_sink(text)};
}

void embedding_bag(const KernelContext& context) {
  const TensorView &table = context.in(0), &ids = context.in(1), &y = context.out();
  const FaultSink sink = table_sink(context, "ids", table, "table");
  const Bags bags = bags_of(context, context.in(2), ids.numel());
  visit_floats(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each<1>(y.numel(), BagSums<T>{bags, table.shape.back(), table.shape[0], table.as<const T>(), Indices(ids),
                                      y.as<T>(), sink});
  });
}

void embedding_bag_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &values = context.out();
  const Bags bags = bags_of(context, context.in(1), values.shape[0]);
  visit_floats(context, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each<1>(dy.numel(), BagRows<T>{bags, dy.shape.back(), dy.as<const T>(), values.as<T>()});
  });
}

void embedding_dense_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &ids = context.in(1), &dtable = context.out();
  const FaultSink sink = table_sink(context, "ids", dtable, "table");
  fill_view(context, dtable, 0);
  const RowOrder order = order_rows(Indices(ids), ids.numel(), dtable.shape[0], 0, sink);
  visit_floats(context, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t width = dtable.shape.back();
    for_each<1>(order.count * width, AddRows<T>{order, width, dy.as<const T>(), dtable.as<T>(), false});
  });
}

void coalesce(const KernelContext& context) {
  const TensorView &indices = context.in(0), &values = context.in(1), &rows = context.out(0), &sums = context.out(1);
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const RowOrder order =
      order_rows(Indices(indices), indices.numel(), kAny, std::numeric_limits<std::int64_t>::min(), FaultSink{});
  std::int64_t* const place = LaunchScope::current().scratch<std::int64_t>(order.count);
  count_beginnings(order, place);
  fill_view(context, rows, -1);
  fill_view(context, sums, 0);
  visit_floats(context, values.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t width = values.shape.back();
    for_each<1>(order.count * width,
                CompactRows<T>{order, place, width, values.as<const T>(), AnyInteger::of(rows), sums.as<T>()});
  });
}

void scatter_add_rows_(const KernelContext& context) {
  const TensorView &indices = context.in(1), &values = context.in(2), &dense = context.out();
  const FaultSink sink = table_sink(context, "rows", dense, "dense", -1);
  const RowOrder order = order_rows(Indices(indices), indices.numel(), dense.shape[0], -1, sink);
  visit_floats(context, values.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t width = values.shape.back();
    for_each<1>(order.count * width, AddRows<T>{order, width, values.as<const T>(), dense.as<T>(), true});
  });
}

constexpr KernelEntry kEntries[] = {
    {"embedding", embedding},         {"embedding_dense_backward", embedding_dense_backward},
    {"embedding_bag", embedding_bag}, {"embedding_bag_backward", embedding_bag_backward},
    {"coalesce", coalesce},           {"scatter_add_rows_", scatter_add_rows_},
};

}  // namespace

std::span<const KernelEntry> sparse_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
