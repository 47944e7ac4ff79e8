// Tells AddressSanitizer that cached memory must not be touched; nothing in other builds.
#pragma once

#include <sanitizer/asan_interface.h>

#include "src/memory/block.h"

namespace ferry::memory {

inline void poison([[maybe_unused]] const void* data, [[maybe_unused]] Bytes size) {
  ASAN_POISON_MEMORY_REGION(data, static_cast<std::size_t>(size.count));
}
inline void unpoison([[maybe_unused]] const void* data, [[maybe_unused]] Bytes size) {
  ASAN_UNPOISON_MEMORY_REGION(data, static_cast<std::size_t>(size.count));
}

}  // namespace ferry::memory
