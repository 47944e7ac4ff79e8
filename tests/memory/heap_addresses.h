// What tests of the heap name blocks with: streams, and addresses that are never touched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/device/driver.h"

namespace ferry::memory {

constexpr StreamId kFirst{0}, kSecond{1};

inline std::byte* address(std::int64_t megabyte) { return reinterpret_cast<std::byte*>(megabyte << 20); }

}  // namespace ferry::memory
