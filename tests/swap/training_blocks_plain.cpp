// Blocks without parameters: elementwise ops, views, in-place ops, reductions, control flow.
#include <cmath>

#include <ferry/activations.h>
#include <ferry/checkpoint.h>
#include <ferry/indexing.h>
#include <ferry/no_grad.h>
#include <ferry/reductions.h>
#include "tests/swap/training_blocks.h"

namespace ferry::test {
namespace {

Tensor mix(BlockCall call) {
  switch (call.random() % 5) {
    case 0:
      return (call.a + call.b) * 0.7;
    case 1:
      return call.a - call.b * 0.3;
    case 2:
      return call.a / (square(call.b) + 1.0);
    case 3:
      return maximum(call.a, call.b) * 0.9;
    default:
      return square_error(tanh(call.a), call.b * 0.3);
  }
}

Tensor gate(BlockCall call) { return call.a * sigmoid(call.b); }

Tensor activation(BlockCall call) {
  switch (call.block_seed % 6) {
    case 0:
      return gelu(call.a);
    case 1:
      return silu(call.a);
    case 2:
      return leaky_relu(call.a, 0.1);
    case 3:
      return relu(call.a) + abs(call.a) * 0.1;
    case 4:
      return exp(minimum(call.a, ones_like(call.a)) * 0.3);
    default:
      return tanh(call.a);
  }
}

Tensor normalized_rows(BlockCall call) {
  if (call.block_seed % 2 == 0) return l2_normalize(call.a) * 3.0;
  return (softmax(call.a) * 4.0 + log_softmax(call.a * 0.1) * 0.1);
}

Tensor statistics(BlockCall call) {
  const Tensor& a = call.a;
  const Tensor centred = a - mean(a, {1}, true);
  const Tensor scaled = centred / sqrt(variance(a, {1}, 0, true) + 0.1);
  return scaled * 0.5 + logsumexp(call.b, {0}, true) * 0.05 + max(call.b, {1}, true) * 0.1 + norm(a, {0}, true) * 0.02;
}

Tensor dropped(BlockCall call) { return dropout(call.a, 0.3) + dropout(call.b, 0.6) * 0.2; }

Tensor noise(BlockCall call) {
  const Tensor low = uniform(call.value_shape(), -0.1, 0.1);
  return call.a + low + normal(call.value_shape(), 0, 0.05) * call.b;
}

// A view is what backward keeps, and its base has no other reader.
Tensor saved_views(BlockCall call) {
  const Tensor base = call.a * 0.8;
  const Tensor view = transpose(reshape(base, {call.rows, call.channels(), 16}), 1, 2);
  const Tensor gated = view * sigmoid(view);
  return call.value(transpose(gated, 1, 2)) + call.b * 0.1;
}

Tensor permuted_images(BlockCall call) {
  const Tensor last = permute(call.image(call.a), {0, 2, 3, 1});
  const Tensor first = permute(square(last) * 0.2 + last, {0, 3, 1, 2});
  return call.value(first);
}

Tensor cut_and_joined(BlockCall call) {
  const std::int64_t cut = call.width / 4 * (1 + static_cast<std::int64_t>(call.random() % 3));
  const Tensor left = narrow(call.a, 1, 0, cut) * 0.9, right = narrow(call.b, 1, cut, call.width - cut);
  const Tensor joined = concat({left, right}, 1);
  const Tensor even = slice(joined, {0}, {0}, {call.rows}, {2});
  const Tensor odd = crop(joined, {call.rows - even.size(0), call.width}, {even.size(0), 0});
  return concat({even, odd}, 0);
}

Tensor split_and_stacked(BlockCall call) {
  const std::vector<Tensor> parts = split(call.a, 4, 1);
  const Tensor stacked = stack({parts[0] + parts[1], parts[2] * parts[3], parts[1], parts[0] * 0.5}, 1);
  return call.value(stacked) * 0.7;
}

Tensor select_and_pad(BlockCall call) {
  const Tensor row =
      select(call.b, 0, static_cast<std::int64_t>(call.random() % static_cast<std::uint64_t>(call.rows)));
  const Tensor padded = pad(narrow(call.a, 1, 2, call.width - 4), {0, 2}, {0, 2}, {.mode = PadMode::reflect});
  return flip(padded, {1}) * 0.8 + row * 0.2;
}

Tensor expanded_sums(BlockCall call) {
  const Tensor column = reshape(sum(call.b, {1}) * (1.0 / static_cast<double>(call.width)), {call.rows, 1});
  return call.a + expand(column, call.value_shape());
}

Tensor products(BlockCall call) {
  const double scale = 1.0 / static_cast<double>(call.width);
  if (call.block_seed % 2 == 0) return matmul(matmul(call.a, transpose(call.b)) * scale, call.b) * 0.5;
  return tanh(linear(call.a, matmul(transpose(call.b), call.b) * (1.0 / static_cast<double>(call.rows))) * 0.2);
}

Tensor changed_in_place(BlockCall call) {
  Tensor y = call.a * 0.5;
  y.add_(call.b * 0.3);
  y.mul_(0.9);
  y.sub_(select(call.b, 0, 0));
  return y + tanh(call.a) * 0.1;
}

// The base of a view changes after the view was made; the view's gradient goes through the change.
Tensor changed_below_a_view(BlockCall call) {
  Tensor y = call.a * 0.5;
  const Tensor view = transpose(y);
  y.add_(call.b * 0.2);
  return transpose(sigmoid(view)) + y * 0.3;
}

// Outside the graph, views are written too.
Tensor mask_of_writes(BlockCall call) {
  Tensor mask = zeros(call.value_shape());
  {
    const NoGrad no_grad;
    narrow(mask, 1, call.width / 3, call.width / 3).fill_(0.7);
    select(mask, 0, 0).copy_(select(call.b, 0, call.rows - 1));
    narrow(mask, 0, call.rows / 2, 1).add_(narrow(call.a, 0, 0, 1));
  }
  return call.a * mask + call.b * 0.5;
}

Tensor masked(BlockCall call) {
  const Tensor larger = greater(call.a, call.b);
  return where(larger, call.a, call.b * 0.5) + masked_fill(call.b, less(call.a, call.b * 0.1), 0.1) * 0.2;
}

Tensor gathered(BlockCall call) {
  const Tensor rows = index_select(call.a, 0, call.indices({call.rows}, call.rows));
  return rows * 0.8 + gather(call.b, 1, call.indices(call.value_shape(), call.width)) * 0.3;
}

// The program goes on by a value that it read in the middle.
Tensor steered_by_a_value(BlockCall call) {
  const double value = mean(call.a).item();
  if (value > 0) return call.a * (0.8 - 0.1 * std::tanh(value));
  return call.a * 0.7 + call.b * 0.2;
}

// Shapes and bounds as tensors in host memory, some of them from values.
Tensor shaped_by_tensors(BlockCall call) {
  const Tensor wide = concat({call.a, call.b * 0.5}, 1);
  const Tensor cropped = crop(wide, shape(call.a), {0, call.width / 4});
  const std::int64_t begin = static_cast<std::int64_t>(argmax(select(call.b, 0, 0)).item()) % (call.width / 2);
  const Tensor starts = from_vector<std::int64_t>({begin}), ends = from_vector<std::int64_t>({begin + call.width / 2});
  const Tensor part = slice(call.a, {1}, starts, ends);
  return cropped * 0.7 + concat({part, part}, 1) * 0.2;
}

// How often and over how much it loops changes from step to step.
Tensor loop(BlockCall call) {
  const int trips = 1 + static_cast<int>(call.random() % 5);
  Tensor h = call.a;
  for (int i = 0; i < trips; ++i) h = tanh(h * 0.9 + call.b * (0.1 * (i + 1)));
  return h;
}

Tensor growing_loop(BlockCall call) {
  const int trips = 1 + static_cast<int>(call.random() % 4);
  Tensor all = call.a;
  for (int i = 0; i < trips; ++i) {
    all = concat({all, sigmoid(narrow(all, 0, all.size(0) - call.rows / 2, call.rows / 2)) - 0.5}, 0) * 0.95;
  }
  return narrow(all, 0, all.size(0) - call.rows, call.rows) + mean(all, {0}, true) * 0.2;
}

Tensor deep_chain(BlockCall call) {
  Tensor h = call.a;
  for (int i = 0; i < 24; ++i) h = i % 3 == 2 ? tanh(h) : h * 0.95 + call.b * 0.05;
  return h;
}

Tensor fan(BlockCall call) {
  const Tensor shared = call.a * 0.9;
  const Tensor left = sigmoid(shared), middle = tanh(shared), right = relu(shared - call.b);
  return left * middle + right * left * 0.5 + shared * 0.3;
}

Tensor detached(BlockCall call) { return call.a.detach() * 0.3 + call.b * tanh(call.a).detach(); }

Tensor without_graph(BlockCall call) {
  Tensor factor;
  {
    const NoGrad no_grad;
    factor = exp(call.a * 0.1) * 0.5;
    factor.mul_(0.9);
  }
  return call.b * factor;
}

Tensor moved(BlockCall call) {
  const Tensor there = call.a.to(cpu::device) * 0.6;
  const Tensor back = there.to(gpu::device);
  return back + call.b.to(cpu::device).to(gpu::device) * back;
}

Tensor converted(BlockCall call) {
  const Tensor wide = call.a.to(DType::f64) * 0.7, narrow16 = (call.b.to(DType::bf16) * 0.5);
  return (wide * tanh(wide)).to(DType::f32) + narrow16.to(DType::f32);
}

Tensor contiguous_copies(BlockCall call) {
  const Tensor turned = transpose(call.a).contiguous();
  return transpose(turned * turned).contiguous() * 0.2 + call.b * 0.5;
}

Tensor nested_checkpoints(BlockCall call) {
  const auto inner = [](const Tensor& x) { return tanh(x * 1.1) * sigmoid(x); };
  const auto outer = [inner](const Tensor& x) { return checkpoint(inner, x) * 0.8 + dropout(x, 0.2) * 0.2; };
  return checkpoint_sequential({inner, outer, inner}, 2, call.a) + call.b * 0.1;
}

Tensor checkpoint_of_two(BlockCall call) {
  const std::vector<Tensor> both = checkpoint(
      [](const std::vector<Tensor>& x) {
        const Tensor product = x[0] * tanh(x[1]);
        return std::vector<Tensor>{product * 0.9, sigmoid(product) - x[0] * 0.2};
      },
      std::vector<Tensor>{call.a, call.b});
  return both[0] + both[1] * 0.3;
}

constexpr BlockKind kPlainBlocks[] = {
    {"mix", mix},
    {"gate", gate},
    {"activation", activation},
    {"normalized_rows", normalized_rows},
    {"statistics", statistics},
    {"dropped", dropped},
    {"noise", noise},
    {"saved_views", saved_views},
    {"permuted_images", permuted_images},
    {"cut_and_joined", cut_and_joined},
    {"split_and_stacked", split_and_stacked},
    {"select_and_pad", select_and_pad},
    {"expanded_sums", expanded_sums},
    {"products", products},
    {"changed_in_place", changed_in_place},
    {"changed_below_a_view", changed_below_a_view},
    {"mask_of_writes", mask_of_writes},
    {"masked", masked},
    {"gathered", gathered},
    {"steered_by_a_value", steered_by_a_value},
    {"shaped_by_tensors", shaped_by_tensors},
    {"loop", loop},
    {"growing_loop", growing_loop},
    {"deep_chain", deep_chain},
    {"fan", fan},
    {"detached", detached},
    {"without_graph", without_graph},
    {"moved", moved},
    {"converted", converted},
    {"contiguous_copies", contiguous_copies},
    {"nested_checkpoints", nested_checkpoints},
    {"checkpoint_of_two", checkpoint_of_two},
};

}  // namespace

Tensor BlockCall::indices(const Shape& shape, std::int64_t bound) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.product()));
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
  return from_vector(values, shape);
}

std::span<const BlockKind> plain_blocks() { return kPlainBlocks; }

const std::vector<BlockKind>& block_kinds() {
  static const std::vector<BlockKind> kKinds = [] {
    std::vector<BlockKind> kinds(plain_blocks().begin(), plain_blocks().end());
    kinds.insert(kinds.end(), layer_blocks().begin(), layer_blocks().end());
    return kinds;
  }();
  return kKinds;
}

}  // namespace ferry::test
