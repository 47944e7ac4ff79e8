#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/attention_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "src/backends/cpu/attention.h"
#include "src/backends/cpu/philox-inl.h"
#include "src/backends/cpu/scratch.h"
#include "src/backends/cpu/tile_gemm-inl.h"
#include "src/kernels/lanes.h"
#include "src/kernels/math.h"

#ifndef FERRY_ATTENTION_TABLE
#define FERRY_ATTENTION_TABLE
namespace ferry::cpu_backend {
using AttentionTable = std::array<AttentionLoops, kDTypeCount>;
// A tile of scores. The width is a multiple of every panel width.
constexpr std::int64_t kRowTile = 64, kKeyTile = 128;
}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

// Whether weights are dropped, drawn again where they are needed.
class DroppedWeights {
 public:
  explicit DroppedWeights(const AttentionTask& task) : task_(task) {}

  // factors[j] = 0 or 1 / (1 - p) for the weights of keys [key, key + n) of a row.
  template <class C>
  void factors(std::int64_t row, std::int64_t key, std::int64_t n, C* factors) {
    std::uint64_t at = task_.position + static_cast<std::uint64_t>(row * task_.keys + key);
    const C kept = static_cast<C>(task_.kept_scale);
    const std::uint32_t threshold = task_.threshold;
    for (std::int64_t done = 0; done < n;) {
      if (at / kBatch != batch_) {
        batch_ = at / kBatch;
        philox_batch(task_.seed, batch_, words_);
      }
      const auto first = static_cast<std::int64_t>(at % kBatch);
      const std::int64_t count = std::min(static_cast<std::int64_t>(kBatch) - first, n - done);
      const std::uint32_t* const words = words_ + first;
      C* const to = factors + done;
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < count; ++j) to[j] = (words[j] >> 8) >= threshold ? kept : C(0);
      done += count;
      at += static_cast<std::uint64_t>(count);
    }
  }

 private:
  static constexpr std::uint64_t kBatch = 4 * kPhiloxBatch;
  const AttentionTask& task_;
  std::uint64_t batch_ = std::numeric_limits<std::uint64_t>::max();
  alignas(64) std::uint32_t words_[kBatch];
};

template <class T>
struct Attention {
  using C = kernels::Compute<T>;
  static constexpr C kInfinity = std::numeric_limits<C>::infinity();

  static Matrix<const T> source(const HeadMatrix& matrix) {
    return {reinterpret_cast<const T*>(matrix.data), matrix.row, matrix.column};
  }
  static Matrix<const T> rows_from(const HeadMatrix& matrix, std::int64_t first) {
    Matrix<const T> result = source(matrix);
    result.data += first * matrix.row;
    return result;
  }

  // to[first + i][j] = scale * from[i][j].
  static void store_rows(const C* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, C scale,
                         const HeadMatrix& to, std::int64_t first) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const C* const row = from + i * from_row;
      T* const stored = reinterpret_cast<T*>(to.data) + (first + i) * to.row;
      if (to.column == 1) {
        FERRY_INDEPENDENT
        for (std::int64_t j = 0; j < columns; ++j) stored[j] = kernels::store<T>(row[j] * scale);
      } else {
        for (std::int64_t j = 0; j < columns; ++j) stored[j * to.column] = kernels::store<T>(row[j] * scale);
      }
    }
  }

  template <class M>
  static void add_mask(const HeadMatrix& mask, std::int64_t row, std::int64_t key, std::int64_t n, C* scores) {
    auto* const from = reinterpret_cast<const M*>(mask.data) + row * mask.row + key * mask.column;
    const std::int64_t step = mask.column;
    const auto apply = [&](std::int64_t j, const M& value) {
      if constexpr (std::is_same_v<M, bool>) {
        scores[j] = value ? scores[j] : -kInfinity;
      } else {
        scores[j] += static_cast<C>(kernels::load(value));
      }
    };
    if (step == 1) {
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < n; ++j) apply(j, from[j]);
    } else {
      for (std::int64_t j = 0; j < n; ++j) apply(j, from[j * step]);
    }
  }

  // Scores of keys [key, key + n) for a query: minus infinity where it may not look.
  static void mask_scores(const AttentionTask& task, std::int64_t row, std::int64_t key, std::int64_t n, C* scores) {
    switch (task.mask_kind) {
      case MaskKind::none:
        break;
      case MaskKind::boolean:
        add_mask<bool>(task.mask, row, key, n, scores);
        break;
      case MaskKind::same:
        add_mask<T>(task.mask, row, key, n, scores);
        break;
      case MaskKind::f32:
        add_mask<float>(task.mask, row, key, n, scores);
        break;
    }
    if (!task.causal) return;
    for (std::int64_t j = std::max<std::int64_t>(0, row - key + 1); j < n; ++j) scores[j] = -kInfinity;
  }

  // The first key that no query up to `last_row` may look at.
  static std::int64_t key_end(const AttentionTask& task, std::int64_t last_row) {
    return task.causal ? std::min(task.keys, last_row + 1) : task.keys;
  }

  // --- forward ---

  // What one query has seen so far: largest score, sum of e^(score - largest).
  struct Running {
    C* largest;
    C* sum;
    C* result;  // sum of e^(score - largest) v
  };

  // scores → weights relative to the largest score so far; what was summed before is rescaled to it.
  static void weigh(std::int64_t n, C* scores, const Running& so_far, std::int64_t width) {
    const C before = *so_far.largest;
    const C largest = std::max(before, kernels::lane_max<C>(n, [&](std::int64_t j) { return scores[j]; }));
    if (largest == -kInfinity) {
      std::fill_n(scores, n, C(0));
      return;
    }
    FERRY_INDEPENDENT
    for (std::int64_t j = 0; j < n; ++j) scores[j] = kernels::exp(scores[j] - largest);
    const C sum = kernels::lane_sum<C>(n, [&](std::int64_t j) { return scores[j]; });
    *so_far.largest = largest;
    if (before == largest) {
      *so_far.sum += sum;
      return;
    }
    const C shrink = kernels::exp(before - largest);
    *so_far.sum = *so_far.sum * shrink + sum;
    C* const result = so_far.result;
    FERRY_INDEPENDENT
    for (std::int64_t j = 0; j < width; ++j) result[j] *= shrink;
  }

  static void forward(const AttentionTask& task) {
    const std::int64_t rows = task.row_count, depth = task.depth, width = padded_width<C>(task.value_depth);
    Scratch<C> scratch;
    const auto q_at = scratch.add(rows * depth), k_at = scratch.add(kKeyTile * depth),
               v_at = scratch.add(kKeyTile * width), scores_at = scratch.add(kRowTile * kKeyTile),
               y_at = scratch.add(rows * width), largest_at = scratch.add(rows), sum_at = scratch.add(rows);
    scratch.allocate();
    C *const q = scratch[q_at], *const k = scratch[k_at], *const v = scratch[v_at], *const scores = scratch[scores_at],
             *const y = scratch[y_at], *const largest = scratch[largest_at], *const sum = scratch[sum_at];
    pack_rows(rows_from(task.q, task.first_row), rows, depth, static_cast<C>(task.scale), q, depth);
    std::fill_n(largest, rows, -kInfinity);
    std::fill_n(sum, rows, C(0));
    std::fill_n(y, rows * width, C(0));
    DroppedWeights dropped(task);
    const std::int64_t end = key_end(task, task.first_row + rows - 1);
    for (std::int64_t key = 0; key < end; key += kKeyTile) {
      const std::int64_t n = std::min(kKeyTile, task.keys - key);
      pack_transposed(rows_from(task.k, key), n, depth, k);
      pack_rows(rows_from(task.v, key), n, task.value_depth, C(1), v, width);
      for (std::int64_t i = 0; i < rows; i += kRowTile) {
        const std::int64_t count = std::min(kRowTile, rows - i);
        if (key >= key_end(task, task.first_row + i + count - 1)) continue;
        multiply_tile<Store::overwrite>(count, padded_width<C>(n), depth, LeftTile<C>{q + i * depth, depth, 1},
                                        packed_panels(k, depth), scores, kKeyTile);
        for (std::int64_t r = 0; r < count; ++r) {
          C* const row = scores + r * kKeyTile;
          const std::int64_t query = task.first_row + i + r;
          mask_scores(task, query, key, n, row);
          weigh(n, row, {largest + i + r, sum + i + r, y + (i + r) * width}, width);
          if (task.threshold != 0) drop(dropped, query, key, n, row);
        }
        multiply_tile<Store::add>(count, width, n, LeftTile<C>{scores, kKeyTile, 1}, padded_rows(v, width),
                                  y + i * width, width);
      }
    }
    finish(task, largest, sum, y, width);
  }

  static void drop(DroppedWeights& dropped, std::int64_t row, std::int64_t key, std::int64_t n, C* weights) {
    alignas(64) C factors[kKeyTile];
    dropped.factors(row, key, n, factors);
    FERRY_INDEPENDENT
    for (std::int64_t j = 0; j < n; ++j) weights[j] *= factors[j];
  }

  static void finish(const AttentionTask& task, const C* largest, const C* sum, const C* y, std::int64_t width) {
    auto* const log_sum_exp = reinterpret_cast<C*>(task.log_sum_exp) + task.first_row;
    for (std::int64_t i = 0; i < task.row_count; ++i) {
      const bool nothing = sum[i] == C(0);
      const C inverse = nothing ? C(0) : C(1) / sum[i];
      store_rows(y + i * width, width, 1, task.value_depth, inverse, task.y, task.first_row + i);
      log_sum_exp[i] = nothing ? kInfinity : largest[i] + kernels::log(sum[i]);
    }
  }

  // --- backward ---

  struct BackwardTiles {
    C *q, *dy, *dq;             // all rows of the task; q is scaled
    C* delta;                   // by row: dy · y
    C *k_columns, *v_columns;   // transposed, in panels
    C *k, *dk, *dv;             // a tile's keys
    C *weights, *dscores;       // a tile
    std::int64_t depth, width;  // padded
  };

  static BackwardTiles backward_tiles(const AttentionTask& task) {
    const std::int64_t rows = task.row_count, depth = padded_width<C>(task.depth),
                       width = padded_width<C>(task.value_depth);
    Scratch<C> scratch;
    const std::size_t at[] = {scratch.add(rows * depth),
                              scratch.add(rows * width),
                              scratch.add(task.dq.data != nullptr ? rows * depth : 0),
                              scratch.add(rows),
                              scratch.add(kKeyTile * task.depth),
                              scratch.add(kKeyTile * task.value_depth),
                              scratch.add(kKeyTile * depth),
                              scratch.add(kKeyTile * depth),
                              scratch.add(kKeyTile * width),
                              scratch.add(kRowTile * kKeyTile),
                              scratch.add(kRowTile * kKeyTile)};
    scratch.allocate();
    return {scratch[at[0]],  scratch[at[1]], scratch[at[2]], scratch[at[3]], scratch[at[4]],
            scratch[at[5]],  scratch[at[6]], scratch[at[7]], scratch[at[8]], scratch[at[9]],
            scratch[at[10]], depth,          width};
  }

  static void prepare_rows(const AttentionTask& task, const BackwardTiles& tiles) {
    const std::int64_t rows = task.row_count;
    pack_rows(rows_from(task.q, task.first_row), rows, task.depth, static_cast<C>(task.scale), tiles.q, tiles.depth);
    pack_rows(rows_from(task.dy, task.first_row), rows, task.value_depth, C(1), tiles.dy, tiles.width);
    if (task.dq.data != nullptr) std::fill_n(tiles.dq, rows * tiles.depth, C(0));
    for (std::int64_t i = 0; i < rows; ++i) {
      const Matrix<const T> y = rows_from(task.y, task.first_row + i);
      const C* const dy = tiles.dy + i * tiles.width;
      tiles.delta[i] =
          kernels::lane_sum<C>(task.value_depth, [&](std::int64_t j) { return kernels::load(*y.at(0, j)) * dy[j]; });
    }
  }

  // scores → weights as they met v, and dweights → dscores.
  static void backward_row(const AttentionTask& task, DroppedWeights& dropped, std::int64_t query, std::int64_t key,
                           std::int64_t n, C delta, C* weights, C* dscores) {
    mask_scores(task, query, key, n, weights);
    const C shift = reinterpret_cast<const C*>(task.log_sum_exp)[query];
    if (task.threshold == 0) {
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < n; ++j) {
        weights[j] = kernels::exp(weights[j] - shift);
        dscores[j] = weights[j] * (dscores[j] - delta);
      }
    } else {
      alignas(64) C factors[kKeyTile];
      dropped.factors(query, key, n, factors);
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < n; ++j) {
        const C weight = kernels::exp(weights[j] - shift);
        weights[j] = weight * factors[j];
        dscores[j] = weight * (dscores[j] * factors[j] - delta);
      }
    }
    if (task.dmask.data == nullptr) return;
    if (task.mask_kind == MaskKind::f32) {
      store_mask<float>(task.dmask, query, key, n, dscores);
    } else {
      store_mask<T>(task.dmask, query, key, n, dscores);
    }
  }

  template <class M>
  static void store_mask(const HeadMatrix& dmask, std::int64_t row, std::int64_t key, std::int64_t n,
                         const C* dscores) {
    auto* const to = reinterpret_cast<M*>(dmask.data) + row * dmask.row + key;
    for (std::int64_t j = 0; j < n; ++j) to[j] = kernels::store<M>(dscores[j]);
  }

  static void backward(const AttentionTask& task) {
    const BackwardTiles tiles = backward_tiles(task);
    prepare_rows(task, tiles);
    DroppedWeights dropped(task);
    const std::int64_t key_stop = task.first_key + task.key_count;
    for (std::int64_t key = task.first_key; key < key_stop; key += kKeyTile) {
      const std::int64_t n = std::min(kKeyTile, key_stop - key);
      pack_transposed(rows_from(task.k, key), n, task.depth, tiles.k_columns);
      pack_transposed(rows_from(task.v, key), n, task.value_depth, tiles.v_columns);
      if (task.dq.data != nullptr) pack_rows(rows_from(task.k, key), n, task.depth, C(1), tiles.k, tiles.depth);
      std::fill_n(tiles.dk, n * tiles.depth, C(0));
      std::fill_n(tiles.dv, n * tiles.width, C(0));
      for (std::int64_t i = 0; i < task.row_count; i += kRowTile) {
        const std::int64_t count = std::min(kRowTile, task.row_count - i);
        if (key < key_end(task, task.first_row + i + count - 1)) backward_tile(task, tiles, dropped, key, n, i, count);
      }
      if (task.dk.data != nullptr) store_rows(tiles.dk, tiles.depth, n, task.depth, C(1), task.dk, key);
      if (task.dv.data != nullptr) store_rows(tiles.dv, tiles.width, n, task.value_depth, C(1), task.dv, key);
    }
    if (task.dq.data != nullptr) {
      store_rows(tiles.dq, tiles.depth, task.row_count, task.depth, static_cast<C>(task.scale), task.dq,
                 task.first_row);
    }
  }

  // Keys [key, key + n) and the task's rows [i, i + count).
  static void backward_tile(const AttentionTask& task, const BackwardTiles& tiles, DroppedWeights& dropped,
                            std::int64_t key, std::int64_t n, std::int64_t i, std::int64_t count) {
    const C *const q = tiles.q + i * tiles.depth, *const dy = tiles.dy + i * tiles.width;
    multiply_tile<Store::overwrite>(count, padded_width<C>(n), task.depth, LeftTile<C>{q, tiles.depth, 1},
                                    packed_panels(tiles.k_columns, task.depth), tiles.weights, kKeyTile);
    multiply_tile<Store::overwrite>(count, padded_width<C>(n), task.value_depth, LeftTile<C>{dy, tiles.width, 1},
                                    packed_panels(tiles.v_columns, task.value_depth), tiles.dscores, kKeyTile);
    for (std::int64_t r = 0; r < count; ++r) {
      backward_row(task, dropped, task.first_row + i + r, key, n, tiles.delta[i + r], tiles.weights + r * kKeyTile,
                   tiles.dscores + r * kKeyTile);
    }
    if (task.dv.data != nullptr) {
      multiply_tile<Store::add>(n, tiles.width, count, LeftTile<C>{tiles.weights, 1, kKeyTile},
                                padded_rows(dy, tiles.width), tiles.dv, tiles.width);
    }
    if (task.dk.data != nullptr) {
      multiply_tile<Store::add>(n, tiles.depth, count, LeftTile<C>{tiles.dscores, 1, kKeyTile},
                                padded_rows(q, tiles.depth), tiles.dk, tiles.depth);
    }
    if (task.dq.data != nullptr) {
      multiply_tile<Store::add>(count, tiles.depth, n, LeftTile<C>{tiles.dscores, kKeyTile, 1},
                                padded_rows<C>(tiles.k, tiles.depth), tiles.dq + i * tiles.depth, tiles.depth);
    }
  }
};

AttentionTable attention_table() {
  return {AttentionLoops{Attention<float>::forward, Attention<float>::backward},
          AttentionLoops{Attention<double>::forward, Attention<double>::backward},
          AttentionLoops{Attention<float16>::forward, Attention<float16>::backward},
          AttentionLoops{Attention<bfloat16>::forward, Attention<bfloat16>::backward}};
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(attention_table);

const AttentionTable& attention_loops() {
  static const AttentionTable table = HWY_DYNAMIC_DISPATCH(attention_table)();
  return table;
}

}  // namespace ferry::cpu_backend
#endif
