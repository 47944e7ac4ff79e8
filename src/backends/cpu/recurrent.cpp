#include "src/backends/cpu/recurrent.h"

#include <algorithm>

#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/parallel.h"
#include "src/backends/cpu/scratch.h"
#include "src/base/check.h"
#include "src/ops/recurrent.h"

namespace ferry::cpu_backend {
namespace {

constexpr double kGrainFlops = 1e6;

struct Layer {
  RecurrentKind kind;
  std::int64_t steps, rows, hidden;
  bool reverse;
  DType dtype;
  const RecurrentLoops& loops;

  std::int64_t gates() const { return gate_count(kind); }
  std::int64_t saved() const { return saved_count(kind); }
  std::int64_t blocks() const { return (hidden + loops.width - 1) / loops.width; }
  std::int64_t packed_size() const { return blocks() * loops.width * gates() * hidden; }
  // C is T: no copies in C are needed.
  bool is_wide() const { return size_of(dtype) == loops.element; }
  // The place in time of the i-th step that the layer makes.
  std::int64_t time(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
  // Bytes of n rows of `units` H.
  std::int64_t bytes(std::int64_t units) const { return rows * units * hidden * size_of(dtype); }
};

Layer layer_of(const KernelContext& context, RecurrentKind kind, const TensorView& per_step, std::int64_t units) {
  const RecurrentLoops& loops = recurrent_loops()[static_cast<std::size_t>(per_step.dtype)];
  FERRY_CHECK(loops.width != 0, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(per_step.dtype));
  return {.kind = kind,
          .steps = per_step.shape[0],
          .rows = per_step.shape[1],
          .hidden = per_step.shape[2] / units,
          .reverse = context.attributes.as<ops::RecurrentAttributes>().reverse,
          .dtype = per_step.dtype,
          .loops = loops};
}

// Arrays of C in the thread's buffer for tiles. Counted in bytes.
class Arrays {
 public:
  explicit Arrays(std::int64_t element) : element_(element) {}
  std::size_t add(std::int64_t count) { return scratch_.add(count * element_); }
  void allocate() { scratch_.allocate(); }
  void* operator[](std::size_t array) const { return scratch_[array]; }

 private:
  std::int64_t element_;
  Scratch<std::byte> scratch_;
};

// Runs `loop` on all blocks and rows of a step.
void run_step(const Layer& layer, RecurrentLoops::Step loop, const RecurrentStep& step) {
  const std::int64_t chunks = (layer.rows + kRecurrentRows - 1) / kRecurrentRows;
  const std::int64_t count = std::min(layer.rows, kRecurrentRows);
  const double flops =
      static_cast<double>(2 * count * layer.gates() * layer.loops.width) * static_cast<double>(layer.hidden);
  const auto grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(kGrainFlops / (flops + 1)));
  // Chunks of a block run one after the other, while its weights are in the cache.
  parallel_for(layer.blocks() * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % chunks * kRecurrentRows;
      loop(step, i / chunks, first, std::min(kRecurrentRows, layer.rows - first));
    }
  });
}

using Pack = void (*)(const std::byte*, std::int64_t, std::int64_t, std::int64_t, void*);

void pack_weights(const Layer& layer, Pack pack, const TensorView& w_hh, void* to) {
  constexpr std::int64_t kElements = 1 << 16;
  const std::int64_t block = layer.loops.width * layer.gates() * layer.hidden;
  parallel_for(layer.blocks(), std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, block)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   pack(w_hh.as<std::byte>(), layer.hidden, layer.gates(), i,
                        static_cast<std::byte*>(to) + i * block * layer.loops.element);
                 }
               });
}

void widen_or_clear(const Layer& layer, const TensorView& state, void* to) {
  const std::int64_t count = layer.rows * layer.hidden;
  if (state.given) {
    layer.loops.widen(state.as<std::byte>(), count, to);
  } else {
    std::fill_n(static_cast<std::byte*>(to), count * layer.loops.element, std::byte{0});
  }
}

TensorView optional_input(const KernelContext& context, std::size_t i) {
  return context.has_input(i) ? context.in(i) : TensorView{};
}

struct ForwardViews {
  TensorView gates, w_hh, bias, h0, c0, y, h, c, saved;
};

// Any float dtype to the layer's C.
void widen_bias(const Layer& layer, const TensorView& bias, void* to) {
  if (bias.dtype == layer.dtype) {
    layer.loops.widen(bias.as<std::byte>(), bias.numel(), to);
  } else {
    std::copy_n(bias.as<float>(), bias.numel(), static_cast<float*>(to));
  }
}

void run_forward(const Layer& layer, const ForwardViews& views) {
  const bool wide = layer.is_wide(), lstm = layer.kind == RecurrentKind::lstm;
  const std::int64_t state = layer.rows * layer.hidden;
  Arrays arrays(layer.loops.element);
  const auto weights = arrays.add(layer.packed_size()), initial = arrays.add(state),
             other = arrays.add(wide ? 0 : state), c = arrays.add(lstm ? state : 0),
             bias = arrays.add(views.bias.given ? layer.gates() * layer.hidden : 0);
  arrays.allocate();
  const bool has_products = layer.steps > 1 || (layer.steps == 1 && views.h0.given);
  if (has_products) pack_weights(layer, layer.loops.pack_forward, views.w_hh, arrays[weights]);
  widen_or_clear(layer, views.h0, arrays[initial]);
  if (lstm) widen_or_clear(layer, views.c0, arrays[c]);
  if (views.bias.given) widen_bias(layer, views.bias, arrays[bias]);
  RecurrentStep step{.hidden = layer.hidden,
                     .weights = arrays[weights],
                     .bias = views.bias.given ? arrays[bias] : nullptr,
                     .h_before = arrays[initial],
                     .from_zero = !views.h0.given,
                     .c = lstm ? arrays[c] : nullptr};
  void* next = arrays[other];
  for (std::int64_t i = 0; i < layer.steps; ++i) {
    const std::int64_t at = layer.time(i);
    step.gates = views.gates.as<std::byte>() + at * layer.bytes(layer.gates());
    step.y = views.y.as<std::byte>() + at * layer.bytes(1);
    step.saved = views.saved.given ? views.saved.as<std::byte>() + at * layer.bytes(layer.saved()) : nullptr;
    step.h_after = wide ? static_cast<void*>(step.y) : next;
    run_step(layer, layer.loops.forward[static_cast<std::size_t>(layer.kind)], step);
    next = const_cast<void*>(step.h_before);
    step.h_before = step.h_after;
    step.from_zero = false;
  }
  layer.loops.narrow(step.h_before, state, views.h.as<std::byte>());
  if (lstm) layer.loops.narrow(arrays[c], state, views.c.as<std::byte>());
}

struct BackwardViews {
  TensorView dy, dh, dc, saved, w_hh, y, before;  // before: c0 or h0
  TensorView dgates, dproducts, dh0, dc0;         // LSTM: dproducts is dgates
};

// What step `at`, the i-th that the layer made, began with: the cell state (LSTM) or h (GRU).
void set_before(const Layer& layer, const BackwardViews& views, std::int64_t i, RecurrentStep& step) {
  if (i == 0) {
    step.before = views.before.given ? views.before.as<std::byte>() : nullptr;
    step.before_row = layer.hidden;
    return;
  }
  const std::int64_t earlier = layer.time(i - 1);
  if (layer.kind == RecurrentKind::lstm) {
    step.before = views.saved.as<std::byte>() + earlier * layer.bytes(5) + 4 * layer.hidden * size_of(layer.dtype);
    step.before_row = 5 * layer.hidden;
  } else {
    step.before = views.y.as<std::byte>() + earlier * layer.bytes(1);
    step.before_row = layer.hidden;
  }
}

void run_backward(const Layer& layer, const BackwardViews& views) {
  const bool wide = layer.is_wide(), lstm = layer.kind == RecurrentKind::lstm;
  const auto kind = static_cast<std::size_t>(layer.kind);
  const std::int64_t state = layer.rows * layer.hidden;
  Arrays arrays(layer.loops.element);
  const auto weights = arrays.add(layer.packed_size()), dh = arrays.add(state), dc = arrays.add(lstm ? state : 0),
             products = arrays.add(wide ? 0 : layer.gates() * state),
             other = arrays.add(wide ? 0 : layer.gates() * state);
  arrays.allocate();
  const bool has_products = layer.steps > 1 || (layer.steps == 1 && views.dh0.given);
  if (has_products) pack_weights(layer, layer.loops.pack_backward, views.w_hh, arrays[weights]);
  widen_or_clear(layer, views.dh, arrays[dh]);
  if (lstm) widen_or_clear(layer, views.dc, arrays[dc]);
  RecurrentStep step{.hidden = layer.hidden, .weights = arrays[weights], .dh = arrays[dh], .dc = arrays[dc]};
  void* place[] = {arrays[products], arrays[other]};
  for (std::int64_t i = layer.steps - 1; i >= 0; --i) {
    const std::int64_t at = layer.time(i), gates = at * layer.bytes(layer.gates());
    step.saved = views.saved.as<std::byte>() + at * layer.bytes(layer.saved());
    step.dy = views.dy.given ? views.dy.as<std::byte>() + at * layer.bytes(1) : nullptr;
    step.dgates = views.dgates.as<std::byte>() + gates;
    step.dproducts = views.dproducts.as<std::byte>() + gates;
    step.products = wide ? static_cast<void*>(step.dproducts) : place[i % 2];
    set_before(layer, views, i, step);
    run_step(layer, layer.loops.backward[kind], step);
    step.later_products = step.products;
    if (lstm) step.dh = nullptr;
  }
  if (views.dh0.given) {
    step.dy = nullptr;
    step.y = views.dh0.as<std::byte>();
    run_step(layer, layer.loops.finish[kind], step);
  }
  if (lstm) layer.loops.narrow(arrays[dc], state, views.dc0.as<std::byte>());
}

}  // namespace

void lstm_layer(const KernelContext& context) {
  run_forward(layer_of(context, RecurrentKind::lstm, context.in(0), 4), {.gates = context.in(0),
                                                                         .w_hh = context.in(1),
                                                                         .bias = {},
                                                                         .h0 = optional_input(context, 2),
                                                                         .c0 = optional_input(context, 3),
                                                                         .y = context.out(0),
                                                                         .h = context.out(1),
                                                                         .c = context.out(2),
                                                                         .saved = context.out(3)});
}

void gru_layer(const KernelContext& context) {
  run_forward(layer_of(context, RecurrentKind::gru, context.in(0), 3), {.gates = context.in(0),
                                                                        .w_hh = context.in(1),
                                                                        .bias = optional_input(context, 2),
                                                                        .h0 = optional_input(context, 3),
                                                                        .c0 = {},
                                                                        .y = context.out(0),
                                                                        .h = context.out(1),
                                                                        .c = {},
                                                                        .saved = context.out(2)});
}

void lstm_layer_backward(const KernelContext& context) {
  run_backward(layer_of(context, RecurrentKind::lstm, context.in(3), 5), {.dy = optional_input(context, 0),
                                                                          .dh = optional_input(context, 1),
                                                                          .dc = optional_input(context, 2),
                                                                          .saved = context.in(3),
                                                                          .w_hh = context.in(4),
                                                                          .y = {},
                                                                          .before = optional_input(context, 5),
                                                                          .dgates = context.out(0),
                                                                          .dproducts = context.out(0),
                                                                          .dh0 = context.out(1),
                                                                          .dc0 = context.out(2)});
}

void gru_layer_backward(const KernelContext& context) {
  run_backward(layer_of(context, RecurrentKind::gru, context.in(2), 4), {.dy = optional_input(context, 0),
                                                                         .dh = optional_input(context, 1),
                                                                         .dc = {},
                                                                         .saved = context.in(2),
                                                                         .w_hh = context.in(3),
                                                                         .y = context.in(4),
                                                                         .before = optional_input(context, 5),
                                                                         .dgates = context.out(0),
                                                                         .dproducts = context.out(1),
                                                                         .dh0 = context.out(2),
                                                                         .dc0 = {}});
}

}  // namespace ferry::cpu_backend
