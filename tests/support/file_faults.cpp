#include "tests/support/file_faults.h"

#include <dlfcn.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <mutex>

namespace ferry::test {
namespace {

struct Order {
  std::int64_t remaining = 0;  // 0: none
  int error = 0;
  bool lasting = false;
};

std::mutex mutex;
std::array<Order, 2> orders;
std::int64_t failures = 0;

bool fails(FileCall call) {
  const std::lock_guard lock(mutex);
  Order& order = orders[static_cast<std::size_t>(call)];
  if (order.remaining == 0) return false;
  if (order.remaining > 1) return --order.remaining, false;
  ++failures;
  errno = order.error;
  if (!order.lasting) order = {};
  return true;
}

template <class F>
F* system_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void fail_file(FileCall call, std::int64_t n, int error, bool lasting) {
  const std::lock_guard lock(mutex);
  orders[static_cast<std::size_t>(call)] = {n, error, lasting};
}

void clear_file_faults() {
  const std::lock_guard lock(mutex);
  orders = {};
}

std::int64_t file_failures() {
  const std::lock_guard lock(mutex);
  return failures;
}

}  // namespace ferry::test

extern "C" ssize_t pread(int file, void* data, size_t size, off_t from) {
  static auto* const system = ferry::test::system_function<ssize_t(int, void*, size_t, off_t)>("pread");
  return ferry::test::fails(ferry::test::FileCall::read) ? -1 : system(file, data, size, from);
}

extern "C" ssize_t pwrite(int file, const void* data, size_t size, off_t to) {
  static auto* const system = ferry::test::system_function<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return ferry::test::fails(ferry::test::FileCall::write) ? -1 : system(file, data, size, to);
}
