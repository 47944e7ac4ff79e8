#include "src/backends/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "src/backends/cpu/parallel.h"
#include "src/backends/cpu/view_ops.h"
#include "src/base/check.h"
#include "src/ops/attention.h"

namespace ferry::cpu_backend {
namespace {

// Rows that share one packing of the keys.
constexpr std::int64_t kRowChunk = 256;
// Few heads are split, at the price of computing the scores once for the queries' gradients and once for the keys'.
constexpr std::int64_t kManyHeads = 16, kBackwardChunk = 128;
constexpr double kGrainFlops = 2e6;

std::int64_t chunks(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// The part of `view` [B…, rows, columns] that belongs to the head-th of B….
HeadMatrix head_matrix(const TensorView& view, std::int64_t head) {
  if (!view.given) return {};
  const int rank = view.shape.rank();
  std::int64_t offset = 0;
  for (int axis = rank - 3; axis >= 0; --axis) {
    offset += head % view.shape[axis] * view.strides[axis];
    head /= view.shape[axis];
  }
  return {view.as<std::byte>() + offset * size_of(view.dtype), view.strides[rank - 2], view.strides[rank - 1]};
}

MaskKind mask_kind(const TensorView& mask, DType type) {
  if (!mask.given) return MaskKind::none;
  if (mask.dtype == DType::boolean) return MaskKind::boolean;
  return mask.dtype == type ? MaskKind::same : MaskKind::f32;
}

AttentionTask common_task(const ops::AttentionAttributes& attributes, const TensorView& q, const TensorView& k,
                          const TensorView& v, const TensorView& mask) {
  const int rank = q.shape.rank();
  AttentionTask task{.rows = q.shape[rank - 2],
                     .keys = k.shape[rank - 2],
                     .depth = q.shape[rank - 1],
                     .value_depth = v.shape[rank - 1]};
  task.mask_kind = mask_kind(mask, q.dtype);
  task.causal = attributes.causal;
  task.scale = attributes.scale;
  if (attributes.dropout > 0) {
    task.threshold = static_cast<std::uint32_t>(std::ceil(std::ldexp(attributes.dropout, 24)));
    task.kept_scale = 1 / (1 - attributes.dropout);
  }
  task.seed = attributes.seed;
  return task;
}

std::int64_t head_count(const TensorView& q) {
  std::int64_t heads = 1;
  for (int axis = 0; axis < q.shape.rank() - 2; ++axis) heads *= q.shape[axis];
  return heads;
}

std::uint64_t head_position(const ops::AttentionAttributes& attributes, const AttentionTask& task, std::int64_t head) {
  return attributes.offset + static_cast<std::uint64_t>(head * task.rows * task.keys);
}

std::byte* head_row(const TensorView& rows, std::int64_t head, std::int64_t length) {
  return rows.as<std::byte>() + head * length * size_of(rows.dtype);
}

const AttentionLoops& loops_for(const KernelContext& context, DType dtype) {
  const AttentionLoops& loops = attention_loops()[static_cast<std::size_t>(dtype)];
  FERRY_CHECK(loops.forward != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(dtype));
  return loops;
}

// Tasks that a thread runs at once, so that small calls wake none.
std::int64_t task_grain(double flops) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kGrainFlops / flops));
}

}  // namespace

void scaled_dot_product_attention(const KernelContext& context) {
  const TensorView &q = context.in(0), &k = context.in(1), &v = context.in(2);
  const TensorView mask = context.has_input(3) ? context.in(3) : TensorView{};
  const auto& attributes = context.attributes.as<ops::AttentionAttributes>();
  const AttentionLoops& loops = loops_for(context, q.dtype);
  const AttentionTask common = common_task(attributes, q, k, v, mask);
  const std::int64_t row_chunks = chunks(common.rows, kRowChunk);
  const auto work = static_cast<double>(2 * std::min(common.rows, kRowChunk) * common.keys) *
                    static_cast<double>(common.depth + common.value_depth);
  parallel_for(head_count(q) * row_chunks, task_grain(work + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / row_chunks;
      AttentionTask task = common;
      task.first_row = i % row_chunks * kRowChunk;
      task.row_count = std::min(kRowChunk, task.rows - task.first_row);
      task.q = head_matrix(q, head);
      task.k = head_matrix(k, head);
      task.v = head_matrix(v, head);
      task.y = head_matrix(context.out(0), head);
      task.mask = head_matrix(mask, head);
      task.log_sum_exp = head_row(context.out(1), head, task.rows);
      task.position = head_position(attributes, task, head);
      loops.forward(task);
    }
  });
}

namespace {

struct BackwardViews {
  TensorView dy, q, k, v, y, log_sum_exp, mask, dq, dk, dv, dmask;
};

AttentionTask backward_task(const AttentionTask& common, const BackwardViews& views, std::int64_t head) {
  AttentionTask task = common;
  task.row_count = task.rows;
  task.key_count = task.keys;
  task.dy = head_matrix(views.dy, head);
  task.q = head_matrix(views.q, head);
  task.k = head_matrix(views.k, head);
  task.v = head_matrix(views.v, head);
  task.y = head_matrix(views.y, head);
  task.mask = head_matrix(views.mask, head);
  task.log_sum_exp = head_row(views.log_sum_exp, head, task.rows);
  task.dq = head_matrix(views.dq, head);
  task.dk = head_matrix(views.dk, head);
  task.dv = head_matrix(views.dv, head);
  task.dmask = head_matrix(views.dmask, head);
  return task;
}

}  // namespace

void scaled_dot_product_attention_backward(const KernelContext& context) {
  const auto& attributes = context.attributes.as<ops::AttentionAttributes>();
  const auto input = [&](std::size_t i) { return context.has_input(i) ? context.in(i) : TensorView{}; };
  const BackwardViews views{input(0), input(1),       input(2),       input(3),       input(4),      input(5),
                            input(6), context.out(0), context.out(1), context.out(2), context.out(3)};
  const AttentionLoops& loops = loops_for(context, views.q.dtype);
  const AttentionTask common = common_task(attributes, views.q, views.k, views.v, views.mask);
  const std::int64_t heads = head_count(views.q);
  if (views.dmask.given) fill_view(views.dmask, 0);  // a causal mask leaves tiles out
  const bool split = heads < kManyHeads;
  const bool for_queries = views.dq.given || views.dmask.given, for_keys = views.dk.given || views.dv.given;
  const std::int64_t row_chunks = split && for_queries ? chunks(common.rows, kBackwardChunk) : 0;
  const std::int64_t key_chunks = split && for_keys ? chunks(common.keys, kBackwardChunk) : 0;
  const std::int64_t parts = split ? row_chunks + key_chunks : 1;
  if (parts == 0) return;
  const auto work = static_cast<double>(10 * common.rows * common.keys) *
                    static_cast<double>(common.depth + common.value_depth) / static_cast<double>(parts);
  parallel_for(heads * parts, task_grain(work + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / parts, part = i % parts;
      AttentionTask task = backward_task(common, views, head);
      task.position = head_position(attributes, task, head);
      if (split && part < row_chunks) {
        task.dk = task.dv = {};
        task.first_row = part * kBackwardChunk;
        task.row_count = std::min(kBackwardChunk, task.rows - task.first_row);
      } else if (split) {
        task.dq = task.dmask = {};
        task.first_key = (part - row_chunks) * kBackwardChunk;
        task.key_count = std::min(kBackwardChunk, task.keys - task.first_key);
      }
      loops.backward(task);
    }
  });
}

}  // namespace ferry::cpu_backend
