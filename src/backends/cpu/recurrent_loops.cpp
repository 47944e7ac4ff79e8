#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/recurrent_loops.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "src/backends/cpu/recurrent.h"
#include "src/backends/cpu/tile_gemm-inl.h"
#include "src/kernels/math.h"

#ifndef FERRY_RECURRENT_TABLE
#define FERRY_RECURRENT_TABLE
namespace ferry::cpu_backend {
using RecurrentTable = std::array<RecurrentLoops, kDTypeCount>;
}
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class T>
struct Recurrent {
  using C = kernels::Compute<T>;
  static constexpr std::int64_t kWidth = panel_width<C>();

  static const T* input(const std::byte* rows, std::int64_t row) { return reinterpret_cast<const T*>(rows) + row; }
  static T* output(std::byte* rows, std::int64_t row) { return reinterpret_cast<T*>(rows) + row; }
  static C rounded(C value) { return kernels::load(kernels::store<T>(value)); }

  static void pack_forward(const std::byte* w_hh, std::int64_t hidden, std::int64_t gates, std::int64_t block,
                           void* to) {
    const std::int64_t first = block * kWidth, units = std::min(kWidth, hidden - first);
    for (std::int64_t gate = 0; gate < gates; ++gate) {
      const Matrix<const T> rows{input(w_hh, (gate * hidden + first) * hidden), hidden, 1};
      pack_transposed(rows, units, hidden, static_cast<C*>(to) + gate * hidden * kWidth);
    }
  }

  static void pack_backward(const std::byte* w_hh, std::int64_t hidden, std::int64_t gates, std::int64_t block,
                            void* to) {
    const std::int64_t first = block * kWidth, units = std::min(kWidth, hidden - first);
    const Matrix<const T> columns{input(w_hh, first), hidden, 1};
    pack_rows(columns, gates * hidden, units, C(1), static_cast<C*>(to), kWidth);
  }

  // --- forward ---

  template <std::int64_t kGates>
  static void products(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count, C* to) {
    if (step.from_zero) {
      std::fill_n(to, count * kGates * kWidth, C(0));
      return;
    }
    const std::int64_t hidden = step.hidden;
    const C* const weights = static_cast<const C*>(step.weights) + block * kGates * hidden * kWidth;
    multiply_tile<Store::overwrite>(count, kGates * kWidth, hidden,
                                    LeftTile<C>{static_cast<const C*>(step.h_before) + first * hidden, hidden, 1},
                                    packed_panels(weights, hidden), to, kGates * kWidth);
  }

  static void lstm_forward(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count) {
    alignas(64) C tile[kRecurrentRows * 4 * kWidth];
    products<4>(step, block, first, count, tile);
    const std::int64_t hidden = step.hidden, at = block * kWidth, units = std::min(kWidth, hidden - at);
    for (std::int64_t r = 0; r < count; ++r) {
      C* const gate = tile + r * 4 * kWidth;
      const std::int64_t row = first + r;
      const T* const x = input(step.gates, row * 4 * hidden + at);
      for (std::int64_t g = 0; g < 4; ++g) {
        C* const values = gate + g * kWidth;
        const T* const projected = x + g * hidden;
        if (g == 2) {
          FERRY_INDEPENDENT
          for (std::int64_t j = 0; j < units; ++j) values[j] = kernels::tanh(values[j] + kernels::load(projected[j]));
        } else {
          FERRY_INDEPENDENT
          for (std::int64_t j = 0; j < units; ++j) {
            values[j] = kernels::sigmoid(values[j] + kernels::load(projected[j]));
          }
        }
      }
      C* const c = static_cast<C*>(step.c) + row * hidden + at;
      C* const h = static_cast<C*>(step.h_after) + row * hidden + at;
      T* const y = output(step.y, row * hidden + at);
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < units; ++j) {
        c[j] = rounded(gate[kWidth + j] * c[j] + gate[j] * gate[2 * kWidth + j]);
      }
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < units; ++j) {
        const T stored = kernels::store<T>(gate[3 * kWidth + j] * kernels::tanh(c[j]));
        y[j] = stored;
        if constexpr (!std::is_same_v<T, C>) h[j] = kernels::load(stored);
      }
      if (step.saved == nullptr) continue;
      T* const saved = output(step.saved, row * 5 * hidden + at);
      for (std::int64_t g = 0; g < 4; ++g) store_units(gate + g * kWidth, units, saved + g * hidden);
      store_units(c, units, saved + 4 * hidden);
    }
  }

  static void store_units(const C* from, std::int64_t units, T* to) {
    FERRY_INDEPENDENT
    for (std::int64_t j = 0; j < units; ++j) to[j] = kernels::store<T>(from[j]);
  }

  static void gru_forward(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count) {
    alignas(64) C tile[kRecurrentRows * 3 * kWidth];
    products<3>(step, block, first, count, tile);
    const std::int64_t hidden = step.hidden, at = block * kWidth, units = std::min(kWidth, hidden - at);
    alignas(64) C bias[3 * kWidth] = {};
    for (std::int64_t g = 0; g < 3 && step.bias != nullptr; ++g) {
      std::copy_n(static_cast<const C*>(step.bias) + g * hidden + at, units, bias + g * kWidth);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      C* const gate = tile + r * 3 * kWidth;
      const std::int64_t row = first + r;
      const T* const x = input(step.gates, row * 3 * hidden + at);
      for (std::int64_t g = 0; g < 2; ++g) {
        C* const values = gate + g * kWidth;
        const C* const added = bias + g * kWidth;
        const T* const projected = x + g * hidden;
        FERRY_INDEPENDENT
        for (std::int64_t j = 0; j < units; ++j) {
          values[j] = kernels::sigmoid(values[j] + added[j] + kernels::load(projected[j]));
        }
      }
      alignas(64) C n[kWidth];
      C *const z = gate + kWidth, *const product = gate + 2 * kWidth;
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < units; ++j) {
        product[j] += bias[2 * kWidth + j];
        n[j] = kernels::tanh(kernels::load(x[2 * hidden + j]) + gate[j] * product[j]);
      }
      const C* const before = static_cast<const C*>(step.h_before) + row * hidden + at;
      C* const h = static_cast<C*>(step.h_after) + row * hidden + at;
      T* const y = output(step.y, row * hidden + at);
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < units; ++j) {
        const T stored = kernels::store<T>(n[j] + z[j] * (before[j] - n[j]));
        y[j] = stored;
        if constexpr (!std::is_same_v<T, C>) h[j] = kernels::load(stored);
      }
      if (step.saved == nullptr) continue;
      T* const saved = output(step.saved, row * 4 * hidden + at);
      store_units(gate, units, saved);
      store_units(z, units, saved + hidden);
      store_units(n, units, saved + 2 * hidden);
      store_units(product, units, saved + 3 * hidden);
    }
  }

  // --- backward ---

  // dh of a block's units: what the later step's products and everything else give.
  template <std::int64_t kGates>
  static void gather_dh(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count, C* dh) {
    const std::int64_t hidden = step.hidden, at = block * kWidth, units = std::min(kWidth, hidden - at);
    if (step.later_products == nullptr) {
      std::fill_n(dh, count * kWidth, C(0));
    } else {
      const std::int64_t k = kGates * hidden;
      const C* const weights = static_cast<const C*>(step.weights) + block * k * kWidth;
      multiply_tile<Store::overwrite>(count, kWidth, k,
                                      LeftTile<C>{static_cast<const C*>(step.later_products) + first * k, k, 1},
                                      packed_panels(weights, k), dh, kWidth);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      C* const sum = dh + r * kWidth;
      const std::int64_t row = (first + r) * hidden + at;
      if (step.dh != nullptr) {
        const C* const direct = static_cast<const C*>(step.dh) + row;
        FERRY_INDEPENDENT
        for (std::int64_t j = 0; j < units; ++j) sum[j] += direct[j];
      }
      if (step.dy == nullptr) continue;
      const T* const dy = input(step.dy, row);
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < units; ++j) sum[j] += kernels::load(dy[j]);
    }
  }

  static void finish(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count, bool lstm) {
    alignas(64) C dh[kRecurrentRows * kWidth];
    if (lstm) {
      gather_dh<4>(step, block, first, count, dh);
    } else {
      gather_dh<3>(step, block, first, count, dh);
    }
    const std::int64_t at = block * kWidth, units = std::min(kWidth, step.hidden - at);
    for (std::int64_t r = 0; r < count; ++r) {
      store_units(dh + r * kWidth, units, output(step.y, (first + r) * step.hidden + at));
    }
  }
  static void lstm_finish(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count) {
    finish(step, block, first, count, true);
  }
  static void gru_finish(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count) {
    finish(step, block, first, count, false);
  }

  // The state before the step, in C.
  static const C* state_before(const RecurrentStep& step, std::int64_t row, std::int64_t at, std::int64_t units,
                               C* buffer) {
    const T* const before = step.before == nullptr ? nullptr : input(step.before, row * step.before_row + at);
    if (before == nullptr) {
      std::fill_n(buffer, units, C(0));
    } else {
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < units; ++j) buffer[j] = kernels::load(before[j]);
    }
    return buffer;
  }

  static void lstm_backward(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count) {
    alignas(64) C tile[kRecurrentRows * kWidth], buffer[kWidth];
    gather_dh<4>(step, block, first, count, tile);
    const std::int64_t hidden = step.hidden, at = block * kWidth, units = std::min(kWidth, hidden - at);
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t row = first + r;
      const C *const dh = tile + r * kWidth, *const before = state_before(step, row, at, units, buffer);
      C* const dc = static_cast<C*>(step.dc) + row * hidden + at;
      const T* const saved = input(step.saved, row * 5 * hidden + at);
      T* const stored = output(step.dgates, row * 4 * hidden + at);
      C* const wide = static_cast<C*>(step.products) + row * 4 * hidden + at;
      const auto put = [&](std::int64_t gate, std::int64_t j, C value) {
        stored[gate * hidden + j] = kernels::store<T>(value);
        if constexpr (!std::is_same_v<T, C>) wide[gate * hidden + j] = value;
      };
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < units; ++j) {
        const C i = kernels::load(saved[j]), f = kernels::load(saved[hidden + j]),
                g = kernels::load(saved[2 * hidden + j]), o = kernels::load(saved[3 * hidden + j]);
        const C t = kernels::tanh(kernels::load(saved[4 * hidden + j]));
        const C d = dc[j] + dh[j] * o * (C(1) - t * t);
        put(0, j, d * g * i * (C(1) - i));
        put(1, j, d * before[j] * f * (C(1) - f));
        put(2, j, d * i * (C(1) - g * g));
        put(3, j, dh[j] * t * o * (C(1) - o));
        dc[j] = d * f;
      }
    }
  }

  static void gru_backward(const RecurrentStep& step, std::int64_t block, std::int64_t first, std::int64_t count) {
    alignas(64) C tile[kRecurrentRows * kWidth], buffer[kWidth];
    gather_dh<3>(step, block, first, count, tile);
    const std::int64_t hidden = step.hidden, at = block * kWidth, units = std::min(kWidth, hidden - at);
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int64_t row = first + r;
      const C *const dh = tile + r * kWidth, *const before = state_before(step, row, at, units, buffer);
      C* const direct = static_cast<C*>(step.dh) + row * hidden + at;
      const T* const saved = input(step.saved, row * 4 * hidden + at);
      T* const dgates = output(step.dgates, row * 3 * hidden + at);
      T* const dproducts = output(step.dproducts, row * 3 * hidden + at);
      C* const wide = static_cast<C*>(step.products) + row * 3 * hidden + at;
      const auto put = [&](std::int64_t gate, std::int64_t j, C dgate, C dproduct) {
        dgates[gate * hidden + j] = kernels::store<T>(dgate);
        dproducts[gate * hidden + j] = kernels::store<T>(dproduct);
        if constexpr (!std::is_same_v<T, C>) wide[gate * hidden + j] = dproduct;
      };
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < units; ++j) {
        const C r_gate = kernels::load(saved[j]), z = kernels::load(saved[hidden + j]),
                n = kernels::load(saved[2 * hidden + j]), product = kernels::load(saved[3 * hidden + j]);
        const C dn = dh[j] * (C(1) - z) * (C(1) - n * n);
        const C dr = dn * product * r_gate * (C(1) - r_gate);
        const C dz = dh[j] * (before[j] - n) * z * (C(1) - z);
        put(0, j, dr, dr);
        put(1, j, dz, dz);
        put(2, j, dn, dn * r_gate);
        direct[j] = dh[j] * z;
      }
    }
  }

  static void widen(const std::byte* from, std::int64_t count, void* to) {
    auto* const x = reinterpret_cast<const T*>(from);
    auto* const y = static_cast<C*>(to);
    FERRY_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i) y[i] = kernels::load(x[i]);
  }
  static void narrow(const void* from, std::int64_t count, std::byte* to) {
    store_units(static_cast<const C*>(from), count, reinterpret_cast<T*>(to));
  }

  static RecurrentLoops loops() {
    return {.width = kWidth,
            .element = sizeof(C),
            .pack_forward = pack_forward,
            .pack_backward = pack_backward,
            .forward = {lstm_forward, gru_forward},
            .backward = {lstm_backward, gru_backward},
            .finish = {lstm_finish, gru_finish},
            .widen = widen,
            .narrow = narrow};
  }
};

RecurrentTable recurrent_table() {
  return {Recurrent<float>::loops(), Recurrent<double>::loops(), Recurrent<float16>::loops(),
          Recurrent<bfloat16>::loops()};
}

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(recurrent_table);

const RecurrentTable& recurrent_loops() {
  static const RecurrentTable table = HWY_DYNAMIC_DISPATCH(recurrent_table)();
  return table;
}

}  // namespace ferry::cpu_backend
#endif
