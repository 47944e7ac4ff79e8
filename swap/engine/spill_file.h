// A file on disk that takes bytes when host memory is full. Ranges that were given back are used again for the same
// size. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ferry/units.h>

namespace ferry::swap {

class SpillFile {
 public:
  // Where bytes are in the file; negative: nowhere.
  using Offset = std::int64_t;
  static constexpr Offset kNowhere = -1;

  // Makes the file and takes its name away at once: it lives as long as this. Throws: InvalidArgument that says what
  // the system said, also for a file that exists.
  explicit SpillFile(std::string path);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // Throws: InvalidArgument (no space on the disk, an error of it); then nothing is kept.
  Offset write(const void* data, Bytes size);
  // Requires: write returned `from` for that size. Throws: InvalidArgument.
  void read(Offset from, void* data, Bytes size) const;
  void give_back(Offset from, Bytes size) noexcept;
  Bytes in_use() const { return in_use_; }

 private:
  [[noreturn]] void fail(const char* action) const;

  std::string path_;
  int file_ = -1;
  Offset end_ = 0;
  Bytes in_use_{};
  std::map<std::int64_t, std::vector<Offset>> free_;  // by size
};

}  // namespace ferry::swap
