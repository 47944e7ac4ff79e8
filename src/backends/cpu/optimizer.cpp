#include "src/backends/cpu/optimizer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

#include "src/backends/cpu/index_check.h"
#include "src/backends/cpu/optimizer_loops.h"
#include "src/backends/cpu/row_order.h"
#include "src/backends/cpu/strided.h"
#include "src/base/check.h"

namespace ferry::cpu_backend {
namespace {

constexpr std::size_t kStates = ops::kOptimizerStates;
// param and grad, or param, rows and values; then states and master.
constexpr std::size_t kDenseGroup = 3 + kStates, kRowsGroup = 4 + kStates;

// Whether a and b, of one shape, are dense and lie in the same order.
bool lie_alike(const TensorView& a, const TensorView& b) {
  const auto walk = make_walk<2>({&a, &b});
  if (walk.count == 0) return true;
  const auto strides = walk.inner_strides();
  return walk.rank == 0 || (walk.rank == 1 && strides[0] == size_of(a.dtype) && strides[1] == size_of(b.dtype));
}

// The arrays of a group that a run walks through together, param first.
struct Operands {
  std::span<const TensorView> group;
  std::size_t first_state;  // what stands before it and is no param or gradient is skipped

  const TensorView& param() const { return group[0]; }
  const TensorView& gradient() const { return group[first_state - 1]; }
  const TensorView& state(std::size_t i) const { return group[first_state + i]; }
  const TensorView& master() const { return group[first_state + kStates]; }

  std::byte* at(const TensorView& view, std::int64_t element) const {
    return view.given ? view.as<std::byte>() + element * size_of(view.dtype) : nullptr;
  }
  // `length` elements from `element` on of all but the gradient.
  OptimizerRun run(std::int64_t element, std::int64_t length, const std::byte* gradient_at) const {
    OptimizerRun run{.length = length, .parameter = at(param(), element), .gradient = gradient_at};
    for (std::size_t i = 0; i < kStates; ++i) run.state[i] = at(state(i), element);
    run.master = at(master(), element);
    return run;
  }
};

OptimizerLoop loop_for(const KernelContext& context, OptimizerRule rule, const Operands& first) {
  std::size_t states = 0;
  for (std::size_t i = 0; i < kStates; ++i) states += first.state(i).given ? 1 : 0;
  return optimizer_loop(context.op, rule, first.param().dtype, states, first.master().given);
}

std::int64_t offset_of(const TensorView& view, std::int64_t element) {
  std::int64_t offset = 0;
  for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
    offset += element % view.shape[axis] * view.strides[axis];
    element /= view.shape[axis];
  }
  return offset;
}

// Element by element: parameters that are views with gaps, or in another order than what goes with them.
void step_strided(const ops::OptimizerAttributes& attributes, OptimizerLoop loop, const Operands& operands) {
  parallel_for(operands.param().numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = [&](const TensorView& view) {
        return view.given ? operands.at(view, offset_of(view, i)) : nullptr;
      };
      OptimizerRun run{.length = 1, .parameter = at(operands.param()), .gradient = at(operands.gradient())};
      for (std::size_t s = 0; s < kStates; ++s) run.state[s] = at(operands.state(s));
      run.master = at(operands.master());
      loop(attributes, {&run, 1});
    }
  });
}

bool is_flat(const Operands& operands) {
  for (const TensorView& view : operands.group.subspan(1)) {
    if (view.given && !lie_alike(operands.param(), view)) return false;
  }
  return true;
}

// Elements [begin, end) of one of the arrays.
struct Piece {
  std::size_t array;
  std::int64_t begin, end;
};

// Cuts arrays of these lengths into pieces of work for one task.
void cut(std::vector<Piece>& pieces, std::size_t array, std::int64_t length) {
  for (std::int64_t begin = 0; begin < length; begin += kElementGrain) {
    pieces.push_back({array, begin, std::min(length, begin + kElementGrain)});
  }
}

template <class Body>
void for_each_piece(const std::vector<Piece>& pieces, const Body& body) {
  // A task takes as many small pieces as fill it.
  std::vector<std::size_t> tasks = {0};
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (filled >= kElementGrain) {
      tasks.push_back(i);
      filled = 0;
    }
    filled += pieces[i].end - pieces[i].begin;
  }
  tasks.push_back(pieces.size());
  parallel_for(static_cast<std::int64_t>(tasks.size()) - 1, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = tasks[static_cast<std::size_t>(begin)]; i < tasks[static_cast<std::size_t>(end)]; ++i) body(i);
  });
}

void step_dense(const KernelContext& context, OptimizerRule rule) {
  const auto& attributes = context.attributes.as<ops::OptimizerAttributes>();
  std::vector<Operands> groups;
  for (std::size_t at = 0; at < context.inputs.size(); at += kDenseGroup) {
    groups.push_back({context.inputs.subspan(at, kDenseGroup), 2});
  }
  const OptimizerLoop loop = loop_for(context, rule, groups[0]);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (is_flat(groups[i])) {
      cut(pieces, i, groups[i].param().numel());
    } else {
      step_strided(attributes, loop, groups[i]);
    }
  }
  for_each_piece(pieces, [&](std::size_t i) {
    const auto& [group, begin, end] = pieces[i];
    const Operands& operands = groups[group];
    const OptimizerRun run = operands.run(begin, end - begin, operands.at(operands.gradient(), begin));
    loop(attributes, {&run, 1});
  });
}

// One parameter with gradients of some of its rows.
class RowsStep {
 public:
  RowsStep(const ops::OptimizerAttributes& attributes, OptimizerLoop loop, const Operands& operands)
      : attributes_(attributes),
        loop_(loop),
        operands_(operands),
        sums_(row_loops(operands.gradient().dtype)),
        width_(operands.param().shape[1]),
        value_bytes_(width_ * size_of(operands.gradient().dtype)),
        values_(operands.gradient().as<const std::byte>()),
        order_(attributes.every_row ? order_rows(operands.group[1]) : group_rows(operands.group[1])) {
    param_ = rows_of(operands.param());
    for (std::size_t i = 0; i < kStates; ++i) states_[i] = rows_of(operands.state(i));
    master_ = rows_of(operands.master());
  }

  void named_rows() const {
    const auto ahead = static_cast<std::size_t>(rows_ahead(param_.bytes));
    for_each_segment_range(order_, width_, [&](std::size_t begin, std::size_t end) {
      Batch batch(*this);
      for (std::size_t s = begin; s < std::min(begin + ahead, end); ++s) prefetch(order_.rows[s]);
      for (std::size_t s = begin; s < end; ++s) {
        if (s + ahead < end) prefetch(order_.rows[s + ahead]);
        batch.add_named(s);
      }
      batch.run();
    });
  }

  // The others have a gradient of 0.
  void every_row() const {
    const std::vector<std::byte> zeros(static_cast<std::size_t>(value_bytes_));
    parallel_for(operands_.param().shape[0], row_grain(width_), [&](std::int64_t begin, std::int64_t end) {
      auto s = static_cast<std::size_t>(std::ranges::lower_bound(order_.rows, begin) - order_.rows.begin());
      Batch batch(*this);
      for (std::int64_t row = begin; row < end; ++row) {
        if (s < order_.rows.size() && order_.rows[s] == row) {
          batch.add_named(s++);
        } else {
          batch.add(row, zeros.data());
        }
      }
      batch.run();
    });
  }

 private:
  // Rows of one task, handed to the loop some at a time, the last ones by run(): a row alone is so short that the calls
  // would keep the core from asking memory for the next ones.
  class Batch {
   public:
    explicit Batch(const RowsStep& step) : step_(step) {}

    void add(std::int64_t row, const std::byte* gradient) {
      runs_[count_++] = step_.run_of(row, gradient);
      if (count_ == kRows) run();
    }
    // The row of segment s with the sum of its values.
    void add_named(std::size_t s) {
      const RowOrder& order = step_.order_;
      const std::int64_t first = order.first[s], last = order.first[s + 1];
      add(order.rows[s], last - first == 1 ? step_.value_row(first) : sum(first, last));
    }
    // Those that are left.
    void run() {
      step_.loop_(step_.attributes_, std::span(runs_).first(count_));
      count_ = 0;
    }

   private:
    static constexpr std::size_t kRows = 16;

    const std::byte* sum(std::int64_t first, std::int64_t last) {
      const auto bytes = static_cast<std::size_t>(step_.value_bytes_);
      sums_.resize(kRows * bytes);
      values_.clear();
      for (auto k = first; k < last; ++k) values_.push_back(step_.value_row(k));
      std::byte* const total = sums_.data() + count_ * bytes;
      step_.sums_.sum(step_.width_, total, nullptr, values_.data(), last - first, 1);
      return total;
    }

    const RowsStep& step_;
    std::array<OptimizerRun, kRows> runs_;
    std::size_t count_ = 0;
    std::vector<std::byte> sums_;  // a place for each of runs_
    std::vector<const std::byte*> values_;
  };

  // The rows of one array; none where it is not given. Here rather than read from the views for each row, whose work is
  // so little that this would show.
  struct Rows {
    std::byte* first = nullptr;
    std::int64_t bytes = 0;
    std::byte* at(std::int64_t row) const { return first + row * bytes; }
  };
  Rows rows_of(const TensorView& view) const {
    return view.given ? Rows{view.as<std::byte>(), width_ * size_of(view.dtype)} : Rows{};
  }

  const std::byte* value_row(std::int64_t k) const {
    return values_ + order_.position[static_cast<std::size_t>(k)] * value_bytes_;
  }
  OptimizerRun run_of(std::int64_t row, const std::byte* gradient) const {
    OptimizerRun run{.length = width_, .parameter = param_.at(row), .gradient = gradient};
    for (std::size_t i = 0; i < kStates; ++i) run.state[i] = states_[i].at(row);
    run.master = master_.at(row);
    return run;
  }
  void prefetch(std::int64_t row) const {
    prefetch_row(param_.at(row), param_.bytes);
    for (const Rows& state : states_) prefetch_row(state.at(row), state.bytes);
    prefetch_row(master_.at(row), master_.bytes);
  }

  const ops::OptimizerAttributes& attributes_;
  OptimizerLoop loop_;
  const Operands& operands_;
  const RowLoops& sums_;
  std::int64_t width_, value_bytes_;
  const std::byte* values_;
  RowOrder order_;
  Rows param_, states_[kStates], master_;
};

void step_rows(const KernelContext& context, OptimizerRule rule) {
  const auto& attributes = context.attributes.as<ops::OptimizerAttributes>();
  std::vector<Operands> groups;
  for (std::size_t at = 0; at < context.inputs.size(); at += kRowsGroup) {
    groups.push_back({context.inputs.subspan(at, kRowsGroup), 3});
    const TensorView& param = groups.back().param();
    check_indices(context, {.name = "rows",
                            .view = context.in(at + 1),
                            .bound = param.shape[0],
                            .into = "param",
                            .shape = param.shape,
                            .lowest = -1});
  }
  const OptimizerLoop loop = loop_for(context, rule, groups[0]);
  for (const Operands& operands : groups) {
    const RowsStep step(attributes, loop, operands);
    attributes.every_row ? step.every_row() : step.named_rows();
  }
}

// Calls dense(view, first byte, elements) for the pieces of all arrays in place 0 of groups of `group`; an array with
// gaps is walked in its runs.
template <class Body>
void for_all_elements(const KernelContext& context, std::size_t group, const Body& body) {
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < context.inputs.size(); at += group) {
    const TensorView& x = context.in(at);
    if (lie_alike(x, x)) {
      cut(pieces, at, x.numel());
      continue;
    }
    const auto walk = make_walk<1>({&x});
    const bool dense_rows = walk.inner_strides()[0] == size_of(x.dtype);
    walk_range(walk, 0, walk.count, [&](std::int64_t n, const std::array<std::byte*, 1>& first) {
      if (dense_rows) return body(x, first[0], n);
      for (std::int64_t i = 0; i < n; ++i) body(x, first[0] + i * walk.inner_strides()[0], 1);
    });
  }
  for_each_piece(pieces, [&](std::size_t i) {
    const TensorView& x = context.in(pieces[i].array);
    body(x, x.as<std::byte>() + pieces[i].begin * size_of(x.dtype), pieces[i].end - pieces[i].begin);
  });
}

}  // namespace

void sgd_(const KernelContext& context) { step_dense(context, OptimizerRule::sgd); }
void sgd_rows_(const KernelContext& context) { step_rows(context, OptimizerRule::sgd); }
void adam_(const KernelContext& context) { step_dense(context, OptimizerRule::adam); }
void adam_rows_(const KernelContext& context) { step_rows(context, OptimizerRule::adam); }
void adagrad_(const KernelContext& context) { step_dense(context, OptimizerRule::adagrad); }
void adagrad_rows_(const KernelContext& context) { step_rows(context, OptimizerRule::adagrad); }

void scale_(const KernelContext& context) {
  const double factor = static_cast<double>(*context.in(1).as<float>());
  for_all_elements(context, 2, [&](const TensorView& x, std::byte* at, std::int64_t n) {
    scale_loops(x.dtype).scale(at, n, factor);
  });
}

void unscale_(const KernelContext& context) {
  const double factor = context.attributes.as<ops::UnscaleAttributes>().scale;
  std::atomic<bool> finite{true};
  for_all_elements(context, 2, [&](const TensorView& x, std::byte* at, std::int64_t n) {
    if (!scale_loops(x.dtype).unscale(at, n, factor)) finite.store(false, std::memory_order_relaxed);
  });
  if (!finite) *context.in(1).as<float>() = 1;
}

void clamp_(const KernelContext& context) {
  const double limit = context.attributes.as<ops::ClampAttributes>().limit;
  for_all_elements(context, 1, [&](const TensorView& x, std::byte* at, std::int64_t n) {
    scale_loops(x.dtype).clamp(at, n, limit);
  });
}

void square_sum(const KernelContext& context) {
  std::vector<Piece> pieces;
  double total = 0;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorView& x = context.in(i);
    if (lie_alike(x, x)) {
      cut(pieces, i, x.numel());
      continue;
    }
    const auto walk = make_walk<1>({&x});
    walk_range(walk, 0, walk.count, [&](std::int64_t n, const std::array<std::byte*, 1>& first) {
      for (std::int64_t k = 0; k < n; ++k) {
        total += scale_loops(x.dtype).square_sum(first[0] + k * walk.inner_strides()[0], 1);
      }
    });
  }
  std::vector<double> sums(pieces.size());
  for_each_piece(pieces, [&](std::size_t i) {
    const TensorView& x = context.in(pieces[i].array);
    sums[i] = scale_loops(x.dtype).square_sum(x.as<std::byte>() + pieces[i].begin * size_of(x.dtype),
                                              pieces[i].end - pieces[i].begin);
  });
  for (const double sum : sums) total += sum;
  if (context.out().dtype == DType::f64) {
    *context.out().as<double>() = total;
  } else {
    *context.out().as<float>() = static_cast<float>(total);
  }
}

}  // namespace ferry::cpu_backend
