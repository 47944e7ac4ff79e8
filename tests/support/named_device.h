// Tests that can run on any device: FERRY_TEST_DEVICE names one, such as cuda or a plug-in, to run on instead of those
// that they are made for.
#pragma once

#include <cstdlib>
#include <optional>

#include "tests/support/runtime_fixture.h"

namespace ferry::test {

inline std::optional<Backend> named_backend() {
  const char* const device = std::getenv("FERRY_TEST_DEVICE");
  if (device == nullptr) return std::nullopt;
  return Backend{"device", {.device = device, .check_ordering = true}};
}

}  // namespace ferry::test
