// One op call on its way through the five steps: place → bring inputs → allocate outputs → launch → record.
#pragma once

#include <array>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "placement/placement.h"
#include "src/ops/invoke.h"
#include "src/ops/op_schema.h"
#include "src/runtime/budget.h"
#include "src/runtime/residency.h"
#include "src/runtime/runtime_core.h"

namespace ferry {

// Room for a call's views without an allocation for the usual few; each is made when added.
class ViewList {
 public:
  ViewList() = default;
  ViewList(const ViewList&) = delete;
  ViewList& operator=(const ViewList&) = delete;

  // Requires: before the first add, when there may be more than kInline.
  void reserve(std::size_t count) {
    if (count > kInline) many_.reserve(count);
    uses_many_ = count > kInline;
  }
  template <class... Members>
  TensorView& add(const Members&... members) {
    if (uses_many_) return many_.emplace_back(TensorView{members...});
    return *new (&inline_[sizeof(TensorView) * count_++]) TensorView{members...};
  }
  TensorView& at(std::size_t i) {
    if (uses_many_) return many_[i];
    return *std::launder(reinterpret_cast<TensorView*>(&inline_[sizeof(TensorView) * i]));
  }
  std::span<const TensorView> views() const {
    if (uses_many_) return many_;
    return {std::launder(reinterpret_cast<const TensorView*>(inline_)), count_};
  }

 private:
  static constexpr std::size_t kInline = 5;
  alignas(TensorView) std::byte inline_[sizeof(TensorView) * kInline];
  std::size_t count_ = 0;
  bool uses_many_ = false;
  std::vector<TensorView> many_;
};

class Call final : private ops::HostValues {
 public:
  Call(RuntimeCore& core, const ops::OpSchema& schema, ops::TensorPointers inputs, const Attributes& attributes,
       std::source_location where, std::span<Tensor> outputs);

  void run();

 private:
  void place();
  void bring_inputs();
  void allocate_outputs();
  void launch();
  void record();
  // What a memory budget has to know before and after the launch.
  void begin_under_budget();
  void announce();
  void prepare_inputs();
  // Since the call began; what made room did, perhaps.
  bool has_moved_inputs() const { return budget_->engine().moved() != moved_; }
  void read_addresses_again();
  void announce_writes();
  void announce_outputs();
  void tell_budget();
  bool is_budgeted() const { return budget_ != nullptr && budget_->device() == placement_.device; }

  // Infer reads a host input's values.
  std::vector<std::int64_t> read(std::size_t input) override;

  bool is_given(std::size_t i) const { return inputs_[i]->defined(); }
  CopyReason reason() const { return {schema_.name, where_, trace::CopyCause::implicit, placement_.cause}; }
  placement::Placement placed() const;
  void fall_back_to_cpu();
  // A dense copy of input i when its memory is not laid out as the op needs it.
  const TensorImpl& laid_out(std::size_t i);
  // Whether input i, itself only read, shows elements of an input that is written, but not as that input does.
  bool overlaps_written(std::size_t i) const;
  void add_input_view(std::size_t i);
  void add_mutated_outputs();
  Tensor make_output(std::size_t i);
  void make_largest_outputs_first();
  void fill_cost(KernelLaunch& launch) const;
  void record_event() const;

  RuntimeCore& core_;
  const ops::OpSchema& schema_;
  ops::TensorPointers inputs_;
  const Attributes& given_attributes_;
  Attributes attributes_;  // infer may resolve what was given to what kernels read
  std::source_location where_;
  std::span<Tensor> outputs_;

  ops::InferContext infer_;
  placement::Placement placement_;
  DeviceContext* context_ = nullptr;
  bool has_gpu_kernel_ = true;
  profiler::Recorder* recorder_;
  Budget* budget_;
  std::uint64_t correlation_ = 0;
  Nanoseconds begin_{};
  Bytes moved_{};  // by the budget, when the call began
  Cost cost_;
  std::vector<std::pair<std::size_t, Tensor>> copies_;  // laid-out inputs
  ViewList input_views_, output_views_;
};

}  // namespace ferry
