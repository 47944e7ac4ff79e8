#include "src/runtime/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include <ferry/no_grad.h>
#include "placement/placement.h"
#include "src/base/check.h"
#include "src/memory/caching_allocator.h"
#include "src/memory/pinned_pool.h"
#include "src/ops/invoke.h"
#include "src/runtime/autocast.h"
#include "src/runtime/current.h"
#include "src/runtime/phase.h"
#include "src/runtime/residency.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {
namespace {

constexpr const char* kEnvironment = "FERRY_MEMORY_BUDGET";
constexpr const char* kEffortVariable = "FERRY_PLANNING_EFFORT";

swap::Methods methods_of(EvictionMethods methods) {
  switch (methods) {
    case EvictionMethods::recompute:
      return swap::Methods::recompute;
    case EvictionMethods::swap:
      return swap::Methods::swap;
    case EvictionMethods::both:
      return swap::Methods::both;
  }
  return swap::Methods::both;
}

// "5GiB", or "80%" of the capacity; 0 for an empty text.
Bytes budget_bytes(std::string_view text, Bytes capacity) {
  if (text.empty()) return {};
  if (text.back() != '%') {
    const Bytes size = parse_bytes(text);
    FERRY_CHECK(size.count > 0, InvalidArgument, "MemoryBudget: '{}' is no memory at all", text);
    return size;
  }
  double percent = 0;
  const std::string_view number = text.substr(0, text.size() - 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), percent);
  FERRY_CHECK(error == std::errc{} && end == number.data() + number.size() && percent > 0 && percent <= 100,
              InvalidArgument,
              "MemoryBudget: '{}' is no part of the device's memory; give 1% to 100%, or bytes like 5GiB", text);
  const Bytes size{static_cast<std::int64_t>(static_cast<double>(capacity.count) * percent / 100)};
  FERRY_CHECK(size.count > 0, InvalidArgument, "MemoryBudget: '{}' is no memory at all", text);
  return size;
}

double planning_effort(double option) {
  FERRY_CHECK(option >= 0 && std::isfinite(option), InvalidArgument,
              "MemoryBudget: a planning effort of {} is no multiple; give a positive number, or 0 for the usual",
              option);
  if (option > 0) return option;
  const char* const text = std::getenv(kEffortVariable);
  if (text == nullptr || *text == '\0') return 1;
  double effort = 0;
  const std::string_view number = text;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), effort);
  FERRY_CHECK(error == std::errc{} && end == number.data() + number.size() && effort > 0 && std::isfinite(effort),
              InvalidArgument, "{}: '{}' is no multiple of the usual effort; give a positive number, like 0.1",
              kEffortVariable, number);
  return effort;
}

DeviceContext& budget_context(RuntimeCore& core, Device device) {
  FERRY_CHECK(device.is_gpu(), InvalidArgument, "MemoryBudget: {} has no budget; only GPUs have", to_string(device));
  return core.context(device);
}

swap::EngineOptions engine_options(const MemoryBudgetOptions& options, const DriverInfo& info, Device device,
                                   Bytes size) {
  return {.device = device,
          .budget = size,
          .methods = methods_of(options.methods),
          .policy = options.policy,
          .threshold = options.threshold,
          .victims = {.minimum_size = options.minimum_evictee_size,
                      .sqrt_sampling = options.sqrt_sampling,
                      .seed = options.seed},
          .link = {.out_bytes_per_second = info.link.out_bytes_per_second,
                   .in_bytes_per_second = info.link.in_bytes_per_second,
                   .latency = info.link.latency},
          .plans = options.plans,
          .planning_effort = planning_effort(options.planning_effort)};
}

}  // namespace

Budget::Budget(RuntimeCore& core, const MemoryBudgetOptions& options)
    : core_(core),
      options_(options),
      context_(budget_context(core, options.device)),
      allocator_(*context_.device_memory),
      size_(budget_bytes(options.size, context_.driver->info().capacity)),
      engine_(engine_options(options, context_.driver->info(), context_.device, size_), *this) {
  if (!options_.file.empty()) file_ = std::make_unique<swap::SpillFile>(options_.file);
  if (size_.count > 0) allocator_.begin_budget(size_);
  allocator_.set_on_failure([this](Bytes missing) { return engine_.make_room(missing); });
}

Budget::~Budget() = default;

bool Budget::end() noexcept {
  if (size_.count > 0) allocator_.end_budget();
  const bool complete = engine_.finish();
  if (complete) file_.reset();
  allocator_.set_on_failure({});
  return complete;
}

std::string Budget::shortage() const {
  std::string text;
  const Bytes smallest = engine_.smallest();
  if (size_.count > 0 && smallest > size_) {
    text = fmt::format(" The memory budget of {} is too small: the iteration needs at least {} ({} bytes).",
                       to_string(size_), to_string(smallest), smallest.count);
  } else if (size_.count > 0) {
    text = fmt::format(
        " Nothing more can leave under the memory budget of {}: what is left is in use by this call, or cannot be "
        "swapped or recomputed.",
        to_string(size_));
  }
  const std::string refusal = engine_.refusal();
  if (!refusal.empty()) text += fmt::format(" {}{}.", refusal, host_limit_text());
  return text;
}

std::string Budget::host_limit_text() const {
  if (options_.host_limit.count == 0) return {};
  return fmt::format(": host_limit is {}{}", to_string(options_.host_limit),
                     file_ != nullptr ? ", and what goes to the file passes through it" : "");
}

bool Budget::copy_out(Storage& storage) {
  if (!has_host_room(storage.size())) return false;
  return start_copy_out(core_, storage, context_);
}

void Budget::prepare_host(std::span<const std::int64_t> copies) noexcept try {
  // Slabs of a size serve each other: of each, as many as are in use at a time, and one that a copy in still reads when
  // it is given up. Together they take no more than what all copies take at a time, and one more.
  std::map<Bytes, std::pair<int, int>, std::greater<>> slabs;  // in use, and at most
  Bytes used{}, most{};
  for (const std::int64_t copy : copies) {
    const Bytes slab = PinnedPool::slab_size(Bytes{std::abs(copy)});
    auto& [now, peak] = slabs[slab];
    now += copy > 0 ? 1 : -1;
    peak = std::max(peak, now + 1);
    used = copy > 0 ? used + slab : used - slab;
    most = std::max(most, used);
  }
  if (!slabs.empty()) most = most + slabs.begin()->first;
  // What leaves against the plan, where addresses rather than bytes are short, is small: large blocks are moved.
  constexpr Bytes kSmall = kKiB * 256;
  constexpr int kSmallSlabs = 4;
  for (Bytes size = PinnedPool::slab_size(Bytes{1}); size <= kSmall; size = PinnedPool::slab_size(size + Bytes{1})) {
    slabs[size].second += kSmallSlabs;
    most = most + size * kSmallSlabs;
  }
  std::vector<Allocation> taken;
  try {
    for (const auto& [size, counts] : slabs) {
      for (int i = 0; i < counts.second && size <= most && has_host_room(size); ++i) {
        taken.push_back(context_.pinned->allocate(size));
        most = most - size;
      }
    }
  } catch (const Error&) {
    // The copies will find as much themselves.
  }
  for (const Allocation& allocation : taken) context_.pinned->deallocate(allocation);
} catch (const std::bad_alloc&) {
}

bool Budget::has_host_room(Bytes size) const {
  const Bytes limit = options_.host_limit;
  // The staging ring's slabs are for uploads.
  return limit.count == 0 || context_.pinned->stats().allocated - context_.staging->held() + size <= limit;
}

void Budget::give_back(Storage& storage) {
  const Replica* const host = storage.find(cpu::device);
  if (host != nullptr && host->pinned && host->event_device == context_.device) {
    if (host->pending.value >= 0) context_.driver->wait_event(context_.compute, host->pending);
    // Copies before it went the same way, and later ones read the host's replica.
    allocator_.end_use(storage.find(context_.device)->allocation, context_.device_to_host);
    storage.set_being_copied(false);
  }
  storage.remove(context_.device);
}

swap::SpillFile::Offset Budget::spill(Storage& storage) {
  if (file_ == nullptr) return swap::SpillFile::kNowhere;
  Replica& host = *storage.find(cpu::device);
  if (host.pending.value >= 0) {
    context_.driver->synchronize_event(host.pending);
    context_.give_back(host.pending);
    storage.mark_settled(host);
  }
  // Without values the file has none either, only the room they take.
  const swap::SpillFile::Offset at = file_->write(host.allocation.data, storage.size());
  storage.remove(cpu::device);
  return at;
}

void Budget::unspill(Storage& storage, swap::SpillFile::Offset from) {
  const Allocation memory = context_.pinned->allocate(storage.size());
  try {
    file_->read(from, memory.data, storage.size());
  } catch (...) {
    context_.pinned->deallocate(memory);
    throw;
  }
  storage.add({cpu::device, true, true, memory, {}, context_.device});
}

void Budget::discard(swap::SpillFile::Offset from, Bytes size) noexcept {
  if (file_ != nullptr) file_->give_back(from, size);
}

void Budget::bring_in(Storage& storage) { start_copy_in(core_, storage, context_); }

std::optional<std::vector<void*>> Budget::cheapest_room(Bytes size, const std::function<double(void*)>& cost) const {
  return allocator_.cheapest_room(size, cost);
}

std::optional<Bytes> Budget::compact(Bytes size, const std::function<Storage*(void*)>& owner, bool is_last_resort) {
  return allocator_.compact(size, block_owners(owner), is_last_resort);
}

Bytes Budget::raise_small_segments(const std::function<Storage*(void*)>& owner) {
  return allocator_.raise_small_segments(block_owners(owner));
}

CachingAllocator::BlockOwners Budget::block_owners(const std::function<Storage*(void*)>& owner) {
  return {.may_move = [&](void* address) { return owner(address) != nullptr; },
          .settle = [&](void* address) { order_move_after_copies(core_, *owner(address), context_); },
          .moved = [&](void* from, void* to) { owner(from)->find(context_.device)->allocation.data = to; }};
}

bool Budget::move(Storage& storage, void* address) {
  Replica& replica = *storage.find(context_.device);
  const Allocation memory = address != nullptr ? allocator_.try_allocate_at(address, storage.size(), context_.compute)
                                               : allocator_.try_allocate(storage.size(), context_.compute);
  if (!memory) return false;
  try {
    if (replica.pending.value >= 0) {  // what it is used by still waits for it, too
      context_.driver->wait_event(context_.compute, replica.pending);
      allocator_.end_use(replica.allocation, context_.host_to_device);
    }
    context_.driver->copy({memory.data, replica.allocation.data, storage.size(), CopyDirection::device_to_device,
                           HostMemory::pinned, "compaction"},
                          context_.compute);
  } catch (...) {
    allocator_.deallocate(memory);
    throw;
  }
  // Copies out of the old memory hold that back until they have passed.
  allocator_.deallocate(std::exchange(replica.allocation, memory));
  return true;
}

CachingAllocator::Arena Budget::arena() const { return allocator_.arena(); }

Bytes Budget::free_bytes() const {
  const AllocatorStats stats = allocator_.stats();
  return stats.reserved - stats.active;
}

Bytes Budget::allocated() const { return allocator_.held().allocated; }

Tensor Budget::view_of(const swap::Operand& operand, Storage* storage) const {
  if (!operand.given) return {};
  auto impl = make_cell<TensorImpl>(operand.shape(), operand.strides(), operand.dtype, operand.device);
  impl->offset = operand.offset;
  // Somebody else owns it for as long as the call takes.
  impl->storage = storage != nullptr ? std::shared_ptr<Storage>(std::shared_ptr<void>(), storage)
                                     : std::make_shared<Storage>(Bytes{}, core_.shared_from_this());
  return Tensor(std::move(impl));
}

std::vector<std::shared_ptr<Storage>> Budget::run_again(const swap::Producer& producer,
                                                        std::span<Storage* const> inputs) {
  const CurrentCore current(core_.shared_from_this());
  const NoGrad no_grad;
  const PhaseScope phase(trace::Phase::recompute);
  const RestoredAutocast types_as_given(nullptr);
  const placement::InheritedPlacement here(producer.device);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i) tensors.push_back(view_of(producer.operands[i], inputs[i]));
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  std::vector<Tensor> outputs(producer.result_count);
  try {
    ops::invoke(*producer.schema, pointers, producer.attributes, producer.where, outputs);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.what(), error.figures());  // the call that needs it says what would help
  }
  std::vector<std::shared_ptr<Storage>> results;
  for (const Tensor& output : outputs) results.push_back(output.defined() ? output.impl()->storage : nullptr);
  return results;
}

void Budget::on_work(const trace::WorkRecord& record) {
  if (record.kind == trace::WorkKind::kernel) last_ = {record.correlation, record.end - record.begin};
}

Nanoseconds Budget::time_of(std::uint64_t correlation, const ops::OpSchema& schema, ops::TensorPointers inputs) {
  if (last_.correlation == correlation) return last_.time;
  std::uint64_t key = static_cast<std::uint64_t>(schema.slot) + 1;
  for (const Tensor* input : inputs) {
    if (!input->defined()) continue;
    for (int i = 0; i < input->rank(); ++i) key = (key ^ static_cast<std::uint64_t>(input->shape()[i])) * 0x100000001b3;
    key = (key ^ static_cast<std::uint64_t>(input->dtype())) * 0x100000001b3;
  }
  if (const auto known = times_.find(key); known != times_.end()) return known->second;
  context_.driver->synchronize_stream(context_.compute);
  context_.driver->flush_work_records();
  if (last_.correlation != correlation) return {};
  times_.emplace(key, last_.time);
  return last_.time;
}

void begin_budget_of_environment(RuntimeCore& core) {
  const char* const size = std::getenv(kEnvironment);
  if (size == nullptr || *size == '\0' || core.gpu_count() == 0) return;
  try {
    core.adopt_budget(std::make_unique<Budget>(core, MemoryBudgetOptions{.size = size})).set_from_environment();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}={}: {}", kEnvironment, size, error.what()));
  }
}

Budget& begin_budget(RuntimeCore& core, const MemoryBudgetOptions& options) {
  if (core.budget() != nullptr && core.budget()->is_from_environment()) end_budget(core, *core.budget());
  FERRY_CHECK(core.budget() == nullptr, InvalidArgument,
              "MemoryBudget: the runtime has a budget already; end it first");
  return core.adopt_budget(std::make_unique<Budget>(core, options));
}

void end_budget(RuntimeCore& core, Budget& budget) noexcept {
  if (budget.end()) core.drop_budget();
}

}  // namespace ferry
