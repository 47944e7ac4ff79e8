#include "tests/fake_cudart/machine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace fake_cuda {
namespace {

constexpr std::size_t kMostPending = 4096;
constexpr std::size_t kAlignment = 512, kMostFilled = std::size_t{4} << 20;

}  // namespace

Machine& Machine::get() {
  // Never destroyed: drivers in static objects may end after it would be.
  static Machine* const machine = new Machine;
  return *machine;
}

cudaError_t Machine::enter(const char* function) {
  ++calls[function];
  const auto failure = failures.find(function);
  if (failure != failures.end() && --failure->second.first == 0) {
    const cudaError_t code = failure->second.second;
    failures.erase(failure);
    return code;
  }
  return failed_work;
}

int& current_device() {
  static thread_local int device = 0;
  return device;
}

std::vector<std::uint64_t>& external_ids() {
  static thread_local std::vector<std::uint64_t> ids;
  return ids;
}

std::optional<Traced> Machine::traced(Traced work) {
  if (!tracing) return std::nullopt;
  work.call = ++traced_calls;
  if (!external_ids().empty()) correlations.emplace_back(work.call, external_ids().back());
  return work;
}

void Machine::push(CUstream_st* stream, std::function<void()> run, std::optional<Traced> traced) {
  stream->pending.push_back({.run = std::move(run), .traced = traced});
  if (stream->pending.size() > kMostPending) carry_out(stream, stream->done + 1);
}

void Machine::run_front(CUstream_st* stream) {
  const CUstream_st::Work work = std::move(stream->pending.front());
  stream->pending.pop_front();
  if (work.awaited != nullptr) {
    carry_out(work.awaited, work.position);
  } else if (fail_next_work != cudaSuccess) {
    failed_work = std::exchange(fail_next_work, cudaSuccess);
  } else if (work.run && failed_work == cudaSuccess) {
    const auto begin = std::chrono::steady_clock::now();
    work.run();
    if (work.traced) activities.push_back({*work.traced, begin, std::chrono::steady_clock::now()});
  }
  ++stream->done;
}

void Machine::carry_out(CUstream_st* stream, std::size_t position) {
  while (stream->done < position && !stream->pending.empty()) run_front(stream);
}

void Machine::carry_out_all() {
  carry_out(&default_stream, default_stream.end());
  for (CUstream_st* const stream : std::set(streams)) carry_out(stream, stream->end());
}

cudaError_t Machine::allocate(void** pointer, std::size_t size, bool pinned) {
  if (!pinned && device_bytes + size > capacity) return cudaErrorMemoryAllocation;
  const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  // NaN as any float: nothing may rely on zeros. Of large blocks the beginning is enough, and takes less time.
  std::memset(memory, 0xff, std::min(rounded, kMostFilled));
  blocks[static_cast<char*>(memory)] = {size, pinned, current_device()};
  (pinned ? pinned_bytes : device_bytes) += size;
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t Machine::release(void* pointer, bool pinned) {
  if (pointer == nullptr) return cudaSuccess;
  carry_out_all();
  const auto found = blocks.find(static_cast<char*>(pointer));
  if (found == blocks.end() || found->second.pinned != pinned) return cudaErrorInvalidValue;
  (pinned ? pinned_bytes : device_bytes) -= found->second.size;
  blocks.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

CUstream_st* Machine::stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamPerThread || handle == cudaStreamLegacy) return &default_stream;
  return streams.contains(handle) ? handle : nullptr;
}

void reset(int devices, std::size_t capacity) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.carry_out_all();
  machine.devices = devices;
  machine.capacity = capacity;
  machine.calls.clear();
  machine.launches.clear();
  machine.peers.clear();
  machine.failures.clear();
  machine.fail_next_work = machine.failed_work = cudaSuccess;
  machine.activities.clear();
  machine.correlations.clear();
  machine.blind = false;
}

void blind_cupti() {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.blind = true;
}

void fail(const std::string& function, int n, cudaError_t code) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.failures[function] = {n, code};
}

void fail_work(cudaError_t code) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.fail_next_work = code;
}

int calls(const std::string& function) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return machine.calls[function];
}

std::vector<Launch> launches() {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return machine.launches;
}

std::size_t device_bytes() {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return machine.device_bytes;
}

std::size_t pinned_bytes() {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return machine.pinned_bytes;
}

int live_streams() {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return static_cast<int>(machine.streams.size());
}

int live_events() {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return static_cast<int>(machine.events.size());
}

}  // namespace fake_cuda
