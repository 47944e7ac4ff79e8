// Where the bytes of a value are, and the copies of single values between device, host memory and file. Decides nothing
// and frees nothing else on the device; only host memory that is full makes older values go to the file. Not
// thread-safe.
#pragma once

#include <algorithm>

#include "swap/engine/engine_state.h"
#include "swap/engine/history.h"
#include "swap/engine/mechanism.h"

namespace ferry::swap {

class Transfers {
 public:
  Transfers(EngineState& state, Mechanism& mechanism, const History& history)
      : state_(state), mechanism_(mechanism), history_(history) {}

  bool is_resident(const Value& value) const {
    ferry::Storage* const bytes = value.bytes();
    return bytes != nullptr && bytes->find(state_.options.device) != nullptr;
  }
  // Of its bytes on the device; null: they are not there.
  void* address(const Value& value) const {
    ferry::Storage* const bytes = value.bytes();
    const ferry::Replica* const replica = bytes == nullptr ? nullptr : bytes->find(state_.options.device);
    return replica == nullptr ? nullptr : replica->allocation.data;
  }
  // In host memory or in the file.
  bool has_host_copy(const Value& value) const;

  // A host copy is there or under way after this. False: host memory and file are full. Requires: resident, or a host
  // copy. Throws: InvalidArgument (the file), DeviceError.
  bool copy_out(Value& value);
  // Throws: OutOfMemory (device or host memory), InvalidArgument (the file), DeviceError. Requires: a host copy, not
  // resident.
  void copy_in(Value& value);
  // Gives its device memory back. Throws: DeviceError, and then nothing has changed.
  void give_back(Value& value);
  // The bytes are in host memory and no longer in the file. Requires: they are in the file. Throws: OutOfMemory,
  // InvalidArgument.
  void unspill(Value& value);
  void discard_file(Value& value) noexcept;

  // Until the link has done what is queued.
  Nanoseconds link_wait() const { return std::max(out_.tail() - state_.now, Nanoseconds{0}); }

 private:
  bool spill_oldest();

  EngineState& state_;
  Mechanism& mechanism_;
  const History& history_;
  CopyQueue out_, in_;  // on the device's time
};

}  // namespace ferry::swap
