#include "src/memory/stream_uses.h"

#include <utility>

namespace ferry::memory {

StreamUses::~StreamUses() {
  for (const EventId event : events_) driver_.destroy_event(event);
}

EventId StreamUses::take_event() {
  if (free_events_.empty()) {
    if (events_.size() == events_.capacity()) events_.reserve(2 * events_.size() + 8);
    free_events_.reserve(events_.capacity());  // so that giving one back never allocates
    const EventId event = driver_.create_event();
    events_.push_back(event);
    return event;
  }
  const EventId event = free_events_.back();
  free_events_.pop_back();
  return event;
}

StreamUses::Queue& StreamUses::queue_of(StreamId stream) {
  const auto index = static_cast<std::size_t>(stream.value);
  if (index >= queues_.size()) queues_.resize(index + 1);
  return queues_[index];
}

void StreamUses::record_use(Block& block, StreamId stream) {
  for (StreamUse* use = block.uses; use != nullptr; use = use->next) {
    if (use->stream != stream) continue;
    use->recorded = false;
    return;
  }
  queue_of(stream);  // so that retire never allocates
  StreamUse* use = uses_.get();
  try {
    use->event = take_event();
  } catch (...) {
    uses_.put(use);
    throw;
  }
  use->block = &block;
  use->stream = stream;
  use->recorded = false;
  use->next = std::exchange(block.uses, use);
  ++block.pending;
}

void StreamUses::forget(Block& block) noexcept {
  for (StreamUse* use = std::exchange(block.uses, nullptr); use != nullptr;) {
    StreamUse* next = use->next;
    free_events_.push_back(use->event);
    uses_.put(use);
    use = next;
  }
  block.pending = 0;
}

void StreamUses::change_owner(Block& block, StreamId owner) {
  if (block.stream == owner) return;
  StreamUse* use = block.uses;
  while (use != nullptr && use->stream != owner) use = use->next;
  if (use == nullptr) {
    record_use(block, block.stream);
  } else {
    queue_of(block.stream);
    use->stream = block.stream;
    use->recorded = false;
  }
  block.stream = owner;
}

void StreamUses::order_owner_after(Block& block) {
  for (StreamUse* use = block.uses; use != nullptr; use = use->next) {
    record(*use);
    driver_.wait_event(block.stream, use->event);
  }
  forget(block);
}

void StreamUses::end_use(Block& block, StreamId stream) noexcept {
  for (StreamUse** link = &block.uses; *link != nullptr; link = &(*link)->next) {
    StreamUse* const use = *link;
    if (use->stream != stream) continue;
    *link = use->next;
    --block.pending;
    free_events_.push_back(use->event);
    uses_.put(use);
    return;
  }
}

void StreamUses::close_use(Block& block, StreamId stream) {
  for (StreamUse* use = block.uses; use != nullptr; use = use->next)
    if (use->stream == stream) record(*use);
}

bool StreamUses::retire(Block& block) noexcept {
  if (block.uses == nullptr) return true;
  StreamUse* use = std::exchange(block.uses, nullptr);
  while (use != nullptr) {
    StreamUse* next = std::exchange(use->next, nullptr);
    try {
      record(*use);
    } catch (...) {
      // poll records it, where the error can be reported
    }
    Queue& queue = queues_[static_cast<std::size_t>(use->stream.value)];
    (queue.tail != nullptr ? queue.tail->next : queue.head) = use;
    queue.tail = use;
    use->order = retired_++;
    ++waiting_;
    use = next;
  }
  return false;
}

void StreamUses::record(StreamUse& use) {
  if (use.recorded) return;
  driver_.record_event(use.event, use.stream);
  use.recorded = true;
}

bool StreamUses::passed(StreamUse& use, bool wait) {
  record(use);
  if (wait) {
    driver_.synchronize_event(use.event);
  } else if (!driver_.query_event(use.event)) {
    return false;
  }
  // Costs nothing once the event has passed, and orders the block's stream whichever thread uses the block next.
  if (use.block->stream != kHostStream) driver_.wait_event(use.block->stream, use.event);
  return true;
}

// Takes the use behind `before` out of the queue; null: the first.
void StreamUses::finish(Queue& queue, StreamUse* before) {
  StreamUse*& link = before != nullptr ? before->next : queue.head;
  StreamUse* const use = link;
  link = use->next;
  if (queue.tail == use) queue.tail = before;
  --waiting_;
  Block* block = use->block;
  if (--block->pending == 0) block->next = std::exchange(ready_, block);
  free_events_.push_back(use->event);
  uses_.put(use);
}

Block* StreamUses::collect(bool wait) {
  if (waiting_ > 0) {
    for (Queue& queue : queues_) {
      while (queue.head != nullptr && passed(*queue.head, wait)) finish(queue, nullptr);
    }
  }
  return std::exchange(ready_, nullptr);
}

Block* StreamUses::wait_one() {
  for (Queue& queue : queues_) {
    while (ready_ == nullptr && queue.head != nullptr && passed(*queue.head, true)) finish(queue, nullptr);
  }
  return std::exchange(ready_, nullptr);
}

Block* StreamUses::wait_on_device() {
  while (ready_ == nullptr && waiting_ > 0) {
    Queue* oldest = nullptr;
    for (Queue& queue : queues_) {
      if (queue.head != nullptr && (oldest == nullptr || queue.head->order < oldest->head->order)) oldest = &queue;
    }
    record(*oldest->head);
    driver_.wait_event(oldest->head->block->stream, oldest->head->event);
    finish(*oldest, nullptr);
  }
  return std::exchange(ready_, nullptr);
}

Block* StreamUses::wait_on_device(Block& block) {
  for (Queue& queue : queues_) {
    StreamUse* before = nullptr;
    for (StreamUse* use = queue.head; use != nullptr;) {
      StreamUse* const next = use->next;
      if (use->block != &block) {
        before = use;
      } else {
        record(*use);
        driver_.wait_event(block.stream, use->event);
        finish(queue, before);
      }
      use = next;
    }
  }
  return std::exchange(ready_, nullptr);
}

Block* StreamUses::poll() { return collect(false); }
Block* StreamUses::wait() { return collect(true); }

}  // namespace ferry::memory
