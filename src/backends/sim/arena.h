// The memory of a simulated GPU: one contiguous range of addresses with a hard capacity, handed out best fit.
//
// Freed memory does not keep its contents: small blocks are filled with 0xFF (NaN as any float), the pages of large
// ones go back to the host. Under AddressSanitizer, touching freed memory is an error.
//
// Thread-safety: none, the driver locks.
#pragma once

#include <cstddef>
#include <map>
#include <set>

#include <ferry/units.h>

namespace ferry::sim {

class Arena {
 public:
  // Reserves addresses; host memory is taken as pages are touched. Not accessible: any access faults, for timing only.
  // Throws: DeviceError when the host refuses so many addresses.
  Arena(Bytes capacity, bool accessible);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // 512-byte aligned. Null for size 0 and when no free range is large enough.
  void* allocate(Bytes size);
  // False when `pointer` is no live allocation.
  bool free(void* pointer);

  std::byte* base() const { return base_; }
  Bytes capacity() const { return capacity_; }
  bool contains(const void* pointer) const;
  // Whether [pointer, pointer + size) lies inside one live allocation.
  bool allocated(const void* pointer, std::int64_t size) const;

 private:
  using Address = std::byte*;
  struct Block {
    std::int64_t size;  // rounded up
    std::int64_t asked;
  };

  void insert_free(Address begin, std::int64_t size);
  void erase_free(std::map<Address, std::int64_t>::iterator range);
  void clear_contents(Address begin, std::int64_t size);
  // For AddressSanitizer, whose notes cost an eighth of the memory they are about: none are made of memory never used.
  void allow_access(Address begin, std::int64_t size);
  void forbid_access(Address begin, std::int64_t size);

  Bytes capacity_;
  bool accessible_;
  std::byte* base_ = nullptr;
  Address forbidden_end_ = nullptr;  // nothing from here on was ever forbidden
  std::map<Address, Block> blocks_;
  std::map<Address, std::int64_t> free_by_address_;
  std::set<std::pair<std::int64_t, Address>> free_by_size_;
};

}  // namespace ferry::sim
