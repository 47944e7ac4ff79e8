#include "src/runtime/call.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include <ferry/no_grad.h>
#include <ferry/scope.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/schemas.h"
#include "src/runtime/copy_report.h"
#include "src/runtime/out_of_memory.h"
#include "src/runtime/phase.h"
#include "src/runtime/values.h"
#include "src/tensor/grad_mode.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {
namespace {

bool has_layout(const ops::OpSchema& schema, std::size_t i, const TensorImpl& tensor) {
  if (ops::has(schema.contiguous, schema.place(i))) return tensor.is_contiguous();
  if (!ops::has(schema.image, schema.place(i)) || tensor.is_contiguous()) return true;
  return tensor.shape.rank() == 4 && tensor.strides == channels_last_strides(tensor.shape);
}

// The view's strides after NumPy broadcasting to `shape`, whose last `kept` axes stay the view's own.
void broadcast_view(TensorView& view, const Shape& shape, int kept) {
  Shape target = shape;
  const int rank = view.shape.rank(), lead = shape.rank() - rank;
  Strides strides = Dims::filled(shape.rank(), 0);
  for (int i = 0; i < rank; ++i) {
    if (i >= rank - kept) target[lead + i] = view.shape[i];
    if (view.shape[i] == target[lead + i]) strides[lead + i] = view.strides[i];
  }
  view.shape = target;
  view.strides = strides;
}

// Views of no element twice have no stride of 0: expand is the only op that makes one.
bool shows_elements_twice(const TensorImpl& tensor) {
  for (int i = 0; i < tensor.shape.rank(); ++i) {
    if (tensor.shape[i] > 1 && tensor.strides[i] == 0) return true;
  }
  return false;
}

// The position after the last element in the storage.
std::int64_t end_of(const TensorImpl& tensor) {
  std::int64_t last = tensor.offset;
  for (int i = 0; i < tensor.shape.rank(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
  return last + 1;
}

bool is_same_view(const TensorImpl& a, const TensorImpl& b) {
  return a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
}

Bytes bytes_of(const ops::OutputSpec& spec) { return {spec.shape.product() * size_of(spec.dtype)}; }

// Of the tensor's first element in a replica at `base`.
void* address_in(const TensorImpl& tensor, void* base) {
  return base == nullptr ? nullptr : static_cast<std::byte*>(base) + tensor.offset * size_of(tensor.dtype);
}

TensorView& add_view(ViewList& views, const TensorImpl& tensor, void* base) {
  return views.add(address_in(tensor, base), tensor.dtype, true, tensor.shape, tensor.strides);
}

}  // namespace

Call::Call(RuntimeCore& core, const ops::OpSchema& schema, ops::TensorPointers inputs, const Attributes& attributes,
           std::source_location where, std::span<Tensor> outputs)
    : core_(core),
      schema_(schema),
      inputs_(inputs),
      given_attributes_(attributes),
      attributes_(attributes),
      where_(where),
      outputs_(outputs),
      infer_(schema, inputs, attributes_, this),
      recorder_(core.recorder()),
      budget_(core.budget()) {
  if (recorder_ != nullptr) {
    correlation_ = recorder_->next_correlation();
    begin_ = core.clock().now();
  }
}

void Call::run() {
  try {
    const ResidencyScope scope(core_, ResidencyScope::Addresses::may_change);
    if (budget_ != nullptr) begin_under_budget();
    place();
    schema_.infer(infer_);
    if (budget_ != nullptr) announce();
    bring_inputs();
    if (budget_ != nullptr && schema_.mutates != 0) announce_writes();
    allocate_outputs();
    if (is_budgeted() && schema_.mutates == 0) announce_outputs();
    launch();
    if (budget_ != nullptr) tell_budget();
    record();
  } catch (const OutOfMemory& error) {
    // A call that runs again fails for the one that needs it, which tells more.
    if (budget_ != nullptr && budget_->engine().is_replaying()) throw;
    throw explain(error, schema_, inputs_, placement_.device, where_, budget_);
  }
}

placement::Placement Call::placed() const {
  if (schema_.runs_on_cpu) return {cpu::device, trace::PlacementCause::op_rule};
  if (schema_.follows_first_input && is_given(0)) return {inputs_[0]->device(), trace::PlacementCause::inherited};
  if (!core_.placement_rules().empty() && !placement::placement_is_inherited()) {
    if (const auto device = core_.placement_rules().match(schema_.name, Scope::path(), where_)) {
      return {*device, trace::PlacementCause::placement_file};
    }
  }
  return placement::current_placement(core_.default_device());
}

void Call::place() {
  placement_ = placed();
  context_ = &core_.context(placement_.device);
  const auto slot = static_cast<std::size_t>(schema_.slot);
  if (context_->kernels[slot] == nullptr) fall_back_to_cpu();
}

void Call::fall_back_to_cpu() {
  has_gpu_kernel_ = false;
  DeviceContext& cpu = core_.cpu();
  FERRY_CHECK(cpu.kernels[static_cast<std::size_t>(schema_.slot)] != nullptr, InvalidArgument,
              "{} has no kernel on any device", schema_.name);
  if (core_.first_fallback(schema_.name, placement_.device)) {
    fmt::print(stderr, "ferry: {} runs on the CPU: {} has no kernel for it ({}:{})\n", schema_.name,
               context_->driver->info().name, where_.file_name(), where_.line());
  }
  placement_ = {cpu::device, trace::PlacementCause::fallback};
  context_ = &cpu;
}

std::vector<std::int64_t> Call::read(std::size_t input) {
  FERRY_CHECK(core_.options().values, InvalidArgument,
              "{}: the values of '{}' decide the result's shape, and there are none in timing-only mode; pass them as "
              "numbers instead",
              schema_.name, schema_.argument(input));
  return read_integers(core_, *inputs_[input]->impl(), reason());
}

bool Call::overlaps_written(std::size_t i) const {
  const TensorImpl& tensor = *inputs_[i]->impl();
  const std::size_t first = i - schema_.place(i);
  const std::size_t end = schema_.group == 0 ? inputs_.size() : first + schema_.group;
  for (std::size_t j = first; j < end; ++j) {
    if (!ops::has(schema_.mutates, schema_.place(j)) || !is_given(j)) continue;
    const TensorImpl& written = *inputs_[j]->impl();
    if (written.storage != tensor.storage || is_same_view(written, tensor)) continue;
    if (tensor.offset < end_of(written) && written.offset < end_of(tensor)) return true;
  }
  return false;
}

const TensorImpl& Call::laid_out(std::size_t i) {
  for (const auto& [input, copy] : copies_) {
    if (input == i) return *copy.impl();
  }
  const TensorImpl& tensor = *inputs_[i]->impl();
  const bool written = ops::has(schema_.mutates, schema_.place(i));
  FERRY_CHECK(!written || !shows_elements_twice(tensor), InvalidArgument,
              "{}: argument '{}' is written in place, and its shape {} with strides {} shows elements more than once; "
              "write to a copy, which contiguous() makes",
              schema_.name, schema_.argument(i), to_string(tensor.shape), to_string(tensor.strides));
  // Elements that the op writes are read from a copy, whatever the order in which a kernel goes through them.
  const bool apart = written || schema_.mutates == 0 || !overlaps_written(i);
  if (apart && has_layout(schema_, i, tensor)) return tensor;
  FERRY_CHECK(!written, InvalidArgument,
              "{}: argument '{}' is written in place and must be contiguous; its shape {} has strides {}", schema_.name,
              schema_.argument(i), to_string(tensor.shape), to_string(tensor.strides));
  const NoGrad no_grad;
  const placement::InheritedPlacement here(placement_.device);
  copies_.emplace_back(i, ops::copy_dense(*inputs_[i], tensor.dtype, where_));
  return *copies_.back().second.impl();
}

void Call::add_input_view(std::size_t i) {
  if (!is_given(i)) {
    input_views_.add();
    return;
  }
  if (ops::has(schema_.metadata_inputs, schema_.place(i))) {
    add_view(input_views_, *inputs_[i]->impl(), nullptr);
    return;
  }
  const TensorImpl& tensor = laid_out(i);
  const Device device = ops::has(schema_.host_inputs, schema_.place(i)) ? cpu::device : placement_.device;
  TensorView& view = add_view(input_views_, tensor, bring(core_, tensor, device, reason()).allocation.data);
  if (!schema_.broadcasts && !schema_.broadcasts_batch) return;
  const Shape& target = infer_.output().shape;
  if (view.shape != target) broadcast_view(view, target, schema_.broadcasts_batch ? 2 : 0);
}

// Copies for the layout are calls of their own, which come before this one.
void Call::announce() {
  if (!is_budgeted() || budget_->engine().is_replaying()) return;
  if (budget_->engine().follows_order()) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (is_given(i) && !ops::has(schema_.metadata_inputs, schema_.place(i))) laid_out(i);
    }
    budget_->engine().before(schema_, inputs_);
  }
  if (budget_->engine().is_short()) prepare_inputs();
}

void Call::prepare_inputs() {
  const auto left_out = schema_.metadata_inputs | schema_.host_inputs;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!is_given(i) || ops::has(left_out, schema_.place(i))) continue;
    const TensorImpl& tensor = *inputs_[i]->impl();
    // One that is copied for its layout is not needed once the copy is there.
    if (has_layout(schema_, i, tensor)) budget_->engine().prepare(*tensor.storage);
  }
}

void Call::announce_writes() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (ops::has(schema_.mutates, schema_.place(i)) && is_given(i)) {
      budget_->engine().before_write(*inputs_[i]->impl()->storage);
    }
  }
  if (has_moved_inputs()) read_addresses_again();
}

void Call::announce_outputs() {
  for (const Tensor& output : outputs_) {
    if (output.defined()) budget_->engine().made(*output.impl()->storage);
  }
}

void Call::tell_budget() {
  if (!is_budgeted()) return;
  budget_->engine().ran({.schema = schema_,
                         .inputs = inputs_,
                         .attributes = given_attributes_,
                         .where = where_,
                         .device = placement_.device,
                         .time = budget_->time_of(correlation_, schema_, inputs_),
                         .outputs = outputs_});
}

void Call::begin_under_budget() {
  if (recorder_ == nullptr) correlation_ = budget_->next_correlation();
  moved_ = budget_->engine().moved();
}

void Call::bring_inputs() {
  input_views_.reserve(inputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) add_input_view(i);
}

void Call::read_addresses_again() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto left_out = schema_.metadata_inputs | schema_.host_inputs;
    if (!is_given(i) || ops::has(left_out, schema_.place(i))) continue;
    const TensorImpl& tensor = laid_out(i);
    const Replica* const replica = tensor.storage->find(placement_.device);
    if (replica != nullptr) input_views_.at(i).data = address_in(tensor, replica->allocation.data);
  }
}

void Call::add_mutated_outputs() {
  output_views_.reserve(outputs_.size());
  std::size_t output = 0;
  for (std::size_t i = 0; i < inputs_.size() && output < outputs_.size(); ++i) {
    if (!ops::has(schema_.mutates, schema_.place(i))) continue;
    if (is_given(i)) outputs_[output] = *inputs_[i];
    output_views_.add(input_views_.views()[i]);
    ++output;
  }
}

Tensor Call::make_output(std::size_t i) {
  const ops::OutputSpec& spec = infer_.output(i);
  const Bytes size = bytes_of(spec);
  auto tensor = make_cell<TensorImpl>(spec.shape, spec.strides, spec.dtype, placement_.device);
  tensor->producer = schema_.name;
  tensor->number = core_.next_number();
  void* const place = is_budgeted() ? budget_->engine().output_place(i, size) : nullptr;
  tensor->storage = allocate_storage(core_, size, *context_, place);
  return Tensor(std::move(tensor));
}

// What has memory already does not move while a budget makes room for the others.
void Call::make_largest_outputs_first() {
  const std::span<const ops::OutputSpec> specs = infer_.outputs();
  std::vector<std::size_t> order(specs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return bytes_of(specs[i]); });
  for (const std::size_t i : order)
    if (specs[i].given) outputs_[i] = make_output(i);
}

void Call::allocate_outputs() {
  if (schema_.mutates != 0) return add_mutated_outputs();
  const std::span<const ops::OutputSpec> specs = infer_.outputs();
  const bool are_made = specs.size() > 1 && is_budgeted();
  if (are_made) make_largest_outputs_first();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].given) {
      output_views_.add();
      continue;
    }
    if (!are_made) outputs_[i] = make_output(i);
    const TensorImpl& tensor = *outputs_[i].impl();
    const Replica* const replica = tensor.storage->settled_on(placement_.device);
    add_view(output_views_, tensor, replica == nullptr ? nullptr : replica->allocation.data);
  }
  if (budget_ != nullptr && has_moved_inputs()) read_addresses_again();
}

void Call::fill_cost(KernelLaunch& launch) const {
  launch.cost.op_class = schema_.op_class;
  if (!infer_.outputs().empty()) launch.cost.dtype = infer_.output().dtype;
  double elements = 0, bytes = 0;
  for (const ops::OutputSpec& output : infer_.outputs()) {
    if (!output.given) continue;
    elements += static_cast<double>(output.shape.product());
    bytes += static_cast<double>(output.shape.product() * size_of(output.dtype));
  }
  for (const Tensor* input : inputs_) {
    if (input->defined()) bytes += static_cast<double>(input->numel() * size_of(input->dtype()));
  }
  launch.cost.flops = schema_.flops == nullptr ? elements : schema_.flops(infer_);
  launch.cost.bytes = schema_.bytes == nullptr ? bytes : schema_.bytes(infer_);
}

void Call::launch() {
  KernelLaunch launch{.kernel = context_->kernels[static_cast<std::size_t>(schema_.slot)],
                      .context = {schema_.name, input_views_.views(), output_views_.views(), attributes_, nullptr},
                      .cost = {},
                      .where = where_,
                      .correlation = correlation_};
  if (context_->driver->needs_cost() || recorder_ != nullptr) {
    fill_cost(launch);
    cost_ = launch.cost;
  }
  for (std::size_t i = 0; schema_.mutates != 0 && i < inputs_.size(); ++i) {
    if (!ops::has(schema_.mutates, schema_.place(i)) || !is_given(i) || placement_.device.is_cpu()) continue;
    order_write_after_copies(core_, *inputs_[i]->impl()->storage, placement_.device);
  }
  context_->driver->launch(launch, context_->compute);
  for (std::size_t i = 0; schema_.mutates != 0 && i < inputs_.size(); ++i) {
    if (!ops::has(schema_.mutates, schema_.place(i)) || !is_given(i)) continue;
    Storage& storage = *inputs_[i]->impl()->storage;
    if (const Replica* written = storage.find(placement_.device)) storage.invalidate_others(*written);
    storage.bump_version();
  }
}

void Call::record() {
  if (recorder_ != nullptr) record_event();
  if (schema_.gradient != nullptr && grad_mode() != GradMode::off) {
    ops::record_in_graph(schema_, inputs_, attributes_, where_, outputs_);
  }
}

void Call::record_event() const {
  std::vector<profiler::TensorMention> inputs, outputs;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (is_given(i) && !ops::has(schema_.metadata_inputs, schema_.place(i))) {
      inputs.push_back(mention(*inputs_[i]->impl(), ops::has(schema_.host_inputs, schema_.place(i))));
    }
  }
  for (const Tensor& output : outputs_) {
    if (output.defined()) outputs.push_back(mention(*output.impl(), schema_.runs_on_cpu));
  }
  const Nanoseconds end = core_.clock().now();
  recorder_->record_op({.op = schema_.name,
                        .where = where_,
                        .scope = Scope::path(),
                        .device = placement_.device,
                        .cause = placement_.cause,
                        .phase = current_phase(),
                        .has_gpu_kernel = has_gpu_kernel_,
                        .correlation = correlation_,
                        .begin = begin_,
                        .end = end,
                        .flops = cost_.flops,
                        .bytes = cost_.bytes,
                        .inputs = inputs,
                        .outputs = outputs});
  const AllocatorStats stats = context_->allocator->stats();
  recorder_->record_memory(placement_.device, end, stats.allocated, stats.reserved);
}

}  // namespace ferry
