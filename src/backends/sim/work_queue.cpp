#include "src/backends/sim/work_queue.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace ferry::sim {
namespace {

// Bounds the memory of queued views and staged copies; long enough that whole layers are reordered in tests.
constexpr std::size_t kMaxPending = 512;

// Results of a kernel that failed are no numbers, so that nothing takes what lay in their memory for values. Arguments
// written in place keep their elements: a kernel fails before it writes.
void invalidate(const KernelWork& work) {
  const std::span<const TensorView> views(work.views), inputs = views.first(work.inputs);
  for (const TensorView& output : views.subspan(work.inputs)) {
    const bool in_place = std::ranges::any_of(inputs, [&](const TensorView& in) { return in.data == output.data; });
    if (!output.given || output.data == nullptr || in_place) continue;
    std::memset(output.data, 0xff, static_cast<std::size_t>(output.numel() * size_of(output.dtype)));
  }
}

}  // namespace

void WorkQueue::push(StreamId stream, Work work) {
  streams_[static_cast<std::size_t>(stream.value)].pending.push_back({++issued_, std::move(work)});
  if (++pending_ > kMaxPending) run_front(order_.adversarial ? random_ready() : oldest());
}

Position WorkQueue::end_of(StreamId id) const {
  const auto index = static_cast<std::size_t>(id.value);
  return {index, streams_[index].done + streams_[index].pending.size()};
}

void WorkQueue::carry_out(Position position) {
  if (!order_.adversarial) {
    while (!passed(position)) run_front(oldest());
    return;
  }
  // Some waits carry out the bare minimum, others run far ahead on other streams: both show missing edges.
  const std::uint64_t eagerness = random_() % 4;
  while (!passed(position)) {
    const bool any = random_() % 4 < eagerness;
    run_front(any ? random_ready() : required_for(position.stream));
  }
}

void WorkQueue::carry_out_all() {
  while (pending_ != 0) run_front(order_.adversarial ? random_ready() : oldest());
}

bool WorkQueue::ready(std::size_t stream) const {
  const auto& pending = streams_[stream].pending;
  if (pending.empty()) return false;
  const auto* wait = std::get_if<EventWait>(&pending.front().work);
  return wait == nullptr || passed(wait->awaited);
}

std::size_t WorkQueue::oldest() const {
  std::size_t best = streams_.size();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].pending.empty()) continue;
    if (best == streams_.size() || streams_[i].pending.front().number < streams_[best].pending.front().number) best = i;
  }
  return best;
}

std::size_t WorkQueue::random_ready() {
  std::size_t count = 0;
  for (std::size_t i = 0; i < streams_.size(); ++i) count += ready(i);
  std::size_t skip = random_() % count;  // the oldest entry is always ready
  for (std::size_t i = 0;; ++i) {
    if (ready(i) && skip-- == 0) return i;
  }
}

// Follows event waits, which only lead to work issued earlier, to a stream whose front can run.
std::size_t WorkQueue::required_for(std::size_t stream) const {
  while (!ready(stream)) stream = std::get<EventWait>(streams_[stream].pending.front().work).awaited.stream;
  return stream;
}

void WorkQueue::run_front(std::size_t index) {
  Stream& stream = streams_[index];
  Entry entry = std::move(stream.pending.front());
  stream.pending.pop_front();
  ++stream.done;
  --pending_;
  if (auto* kernel = std::get_if<KernelWork>(&entry.work)) {
    run(*kernel, entry.number);
  } else if (auto* copy = std::get_if<CopyWork>(&entry.work)) {
    std::memmove(copy->destination, copy->staging ? copy->staging.get() : copy->source, copy->size);
  }
}

void WorkQueue::run(KernelWork& work, std::uint64_t number) {
  const std::span<const TensorView> views(work.views);
  try {
    work.kernel({.op = work.op,
                 .inputs = views.first(work.inputs),
                 .outputs = views.subspan(work.inputs),
                 .attributes = work.attributes});
  } catch (Error& error) {
    invalidate(work);
    error.locate(work.op, work.where);
    keep_error(std::current_exception(), number);
  } catch (...) {
    invalidate(work);
    keep_error(std::current_exception(), number);
  }
}

std::exception_ptr WorkQueue::take_error() { return std::exchange(error_, nullptr); }

void WorkQueue::keep_error(std::exception_ptr error) { keep_error(std::move(error), issued_); }

void WorkQueue::keep_error(std::exception_ptr error, std::uint64_t number) {
  if (error_ && error_number_ <= number) return;
  error_ = std::move(error);
  error_number_ = number;
}

}  // namespace ferry::sim
