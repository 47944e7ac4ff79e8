// Strings kept once each, named by a small number: a trace repeats few names in many events.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace ferry::profiler::analysis {

// -1: no name.
using NameIndex = std::int32_t;

// Not thread-safe. Views of names stay valid as long as the pool, also when it is moved.
class NamePool {
 public:
  // The index of `text`; equal texts have equal indices. Throws: ParseError above 2^31 - 1 names.
  NameIndex intern(std::string_view text);
  // -1 when the pool has no such name.
  NameIndex find(std::string_view text) const;
  // "" for -1. Requires: index < size().
  std::string_view operator[](NameIndex index) const {
    return index < 0 ? std::string_view{} : names_[static_cast<std::size_t>(index)];
  }
  std::size_t size() const { return names_.size(); }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    NameIndex name = -1;
  };

  std::size_t slot_of(std::string_view text, std::uint32_t hash) const;
  std::string_view keep(std::string_view text);
  void grow();

  std::vector<std::string_view> names_;
  std::vector<Slot> slots_;  // open addressing, a power of two of them
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_left_ = 0;
};

}  // namespace ferry::profiler::analysis
