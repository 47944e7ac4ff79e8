// Makes reads and writes of files fail in this process, as a full or a broken disk does. Linked into a program it takes
// the place of pread and pwrite, which call the system's as long as nothing is to fail.
//
// Thread-safety: all may be called from any thread.
#pragma once

#include <cstdint>

namespace ferry::test {

enum class FileCall : std::uint8_t { read, write };

// The n-th such call from now fails with this errno, 1 being the next; `lasting`: and all after it.
void fail_file(FileCall call, std::int64_t n, int error, bool lasting);
// Nothing fails from now on.
void clear_file_faults();
// Calls that were made to fail.
std::int64_t file_failures();

}  // namespace ferry::test
