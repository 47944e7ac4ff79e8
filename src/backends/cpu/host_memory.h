// Memory of the host from the system, in pieces that suit an allocator on top: large ones start at a huge page.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstdint>

#include <ferry/units.h>

namespace ferry::cpu_backend {

enum class Contents : std::uint8_t {
  present,
  absent,  // address space only: reading or writing it is a fault, and it takes no memory
};

// Page-aligned memory, zeroed; 2 MiB aligned and backed by huge pages where the system gives them for sizes from 2 MiB.
// Null when the system refuses, and for size 0.
void* map_host_memory(Bytes size, Contents contents);

// Requires: a pointer and size of map_host_memory, or null.
void unmap_host_memory(void* pointer, Bytes size) noexcept;

// What this process may use: physical memory, or less where a control group says so.
Bytes host_memory_capacity();

// Copies `size` bytes between ranges that do not overlap, with several threads where it is large.
void copy_host_memory(void* destination, const void* source, Bytes size);

}  // namespace ferry::cpu_backend
