// How fast the link between host and device is, from a few copies.
#pragma once

#include "src/device/driver.h"

namespace ferry::cuda_backend {

// Of the current device, in some milliseconds; nothing is known where memory for it or a call fails.
DriverInfo::Link measure_link() noexcept;

}  // namespace ferry::cuda_backend
