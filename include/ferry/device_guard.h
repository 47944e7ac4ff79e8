// DeviceGuard: everything created or computed inside the scope runs on the named device.
//
//   {
//     DeviceGuard<cpu> guard;                 // or DeviceGuard<gpu>, DeviceGuard<> guard{"gpu:1"}
//     Tensor rows = embedding(table, ids);    // on the CPU; later ops bring `rows` where they need it
//   }
//
// The innermost guard of the calling thread wins, "" (no preference) gives the runtime's default device back, and the
// outer guard is restored at the end of the scope, exceptions included. Backward and optimizer ops run where their
// forward op or parameter is, whatever guard stands around the call.
#pragma once

#include <optional>
#include <string_view>

#include <ferry/device.h>

namespace ferry {

namespace placement {

// One guard of a thread's stack of guards.
struct GuardFrame {
  std::optional<Device> device;  // empty: no preference
  bool inherited = false;        // set by the library: backward and optimizer ops
  const GuardFrame* outer = nullptr;
};

// Pushes `frame`. Throws: InvalidArgument when the current runtime has no such device.
void push_guard(GuardFrame& frame);
void pop_guard(const GuardFrame& frame) noexcept;
// Reads "cpu", "gpu", "gpu:N" or "". Throws: InvalidArgument saying what is legal.
std::optional<Device> parse_guard(std::string_view text);

}  // namespace placement

template <class Tag = void>
class [[nodiscard]] DeviceGuard {
 public:
  DeviceGuard() : frame_{Tag::device} { placement::push_guard(frame_); }
  ~DeviceGuard() { placement::pop_guard(frame_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  placement::GuardFrame frame_;
};

template <>
class [[nodiscard]] DeviceGuard<void> {
 public:
  explicit DeviceGuard(std::string_view text) : frame_{placement::parse_guard(text)} { placement::push_guard(frame_); }
  explicit DeviceGuard(Device device) : frame_{device} { placement::push_guard(frame_); }
  ~DeviceGuard() { placement::pop_guard(frame_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  placement::GuardFrame frame_;
};

// DeviceGuard guard{"cpu"}; names a device by text.
DeviceGuard(std::string_view)->DeviceGuard<void>;
DeviceGuard(const char*)->DeviceGuard<void>;
DeviceGuard(Device)->DeviceGuard<void>;

}  // namespace ferry
