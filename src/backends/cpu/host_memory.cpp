#include "src/backends/cpu/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "src/backends/cpu/parallel.h"

namespace ferry::cpu_backend {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

std::int64_t page_size() {
  static const std::int64_t size = sysconf(_SC_PAGESIZE);
  return size;
}

std::size_t mapped_size(Bytes size) {
  return static_cast<std::size_t>((size.count + page_size() - 1) / page_size() * page_size());
}

void* map(std::size_t size, Contents contents) {
  const bool present = contents == Contents::present;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (present ? 0 : MAP_NORESERVE);
  void* pointer = mmap(nullptr, size, present ? PROT_READ | PROT_WRITE : PROT_NONE, flags, -1, 0);
  return pointer == MAP_FAILED ? nullptr : pointer;
}

// Maps a huge page more than asked for and returns what lies outside the aligned piece.
void* map_aligned(std::size_t size, Contents contents) {
  auto* const start = static_cast<char*>(map(size + kHugePage, contents));
  if (start == nullptr) return nullptr;
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (before > 0) munmap(start, before);
  if (before < kHugePage) munmap(start + before + size, kHugePage - before);
  return start + before;
}

// The limit a control group file holds; none ("max", no such file) is no limit.
std::int64_t limit_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t limit = 0;
  return file >> limit && limit > 0 ? limit : INT64_MAX;
}

// The smallest limit of this process's control group and those around it.
std::int64_t control_group_limit() {
  std::int64_t limit = INT64_MAX;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool unified = line.starts_with("0::");
    if (!unified && line.find(":memory:") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string file = unified ? "/memory.max" : "/memory.limit_in_bytes";
    std::string group = line.substr(line.rfind(':') + 1);
    while (true) {
      limit = std::min(limit, limit_in(root + group + file));
      const auto slash = group.rfind('/');
      if (group.empty() || slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  return limit;
}

}  // namespace

void* map_host_memory(Bytes size, Contents contents) {
  if (size.count <= 0 || size.count > INT64_MAX / 2) return nullptr;
  if (size.count < kHugePage) return map(mapped_size(size), contents);
  void* const pointer = map_aligned(mapped_size(size), contents);
#ifdef MADV_HUGEPAGE
  if (pointer != nullptr && contents == Contents::present) madvise(pointer, mapped_size(size), MADV_HUGEPAGE);
#endif
  return pointer;
}

void unmap_host_memory(void* pointer, Bytes size) noexcept {
  if (pointer != nullptr) munmap(pointer, mapped_size(size));
}

Bytes host_memory_capacity() {
  const std::int64_t physical = sysconf(_SC_PHYS_PAGES) * page_size();
  return Bytes{std::min(physical, control_group_limit())};
}

void copy_host_memory(void* destination, const void* source, Bytes size) {
  constexpr std::int64_t kGrain = std::int64_t{1} << 20;
  parallel_for(size.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<char*>(destination) + begin, static_cast<const char*>(source) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

}  // namespace ferry::cpu_backend
