// An optional side of a driver: copies between two devices without a stop in host memory. A driver that can do that
// derives from this beside Driver.
#pragma once

#include "src/device/driver.h"

namespace ferry {

// Thread-safety: as Driver.
class PeerCopies {
 public:
  virtual ~PeerCopies() = default;
  // Whether this driver's copy() takes memory of the other's device as the source of a device_to_device copy, and
  // wait_for its streams.
  virtual bool reaches(const Driver& other) const = 0;
  // Later work on `stream` starts after the work that the other's stream has now. Requires: reaches(other).
  // Throws: DeviceError.
  virtual void wait_for(StreamId stream, Driver& other, StreamId of_other) = 0;
};

}  // namespace ferry
