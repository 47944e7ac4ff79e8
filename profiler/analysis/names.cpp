#include "profiler/analysis/names.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "src/base/check.h"

namespace ferry::profiler::analysis {
namespace {

constexpr std::size_t kBlockSize = std::size_t{1} << 16;

std::uint32_t hash_of(std::string_view text) {
  const std::uint64_t hash = std::hash<std::string_view>{}(text);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

std::size_t NamePool::slot_of(std::string_view text, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].name >= 0 && (slots_[at].hash != hash || (*this)[slots_[at].name] != text)) at = (at + 1) & mask;
  return at;
}

std::string_view NamePool::keep(std::string_view text) {
  if (text.empty()) return "";
  if (text.size() > kBlockSize / 4) {
    // A long text has a block of its own, behind the one that is being filled.
    auto block = std::make_unique<char[]>(text.size());
    std::memcpy(block.get(), text.data(), text.size());
    const std::string_view kept(block.get(), text.size());
    blocks_.insert(blocks_.empty() ? blocks_.end() : blocks_.end() - 1, std::move(block));
    if (blocks_.size() == 1) block_left_ = 0;
    return kept;
  }
  if (text.size() > block_left_) {
    blocks_.push_back(std::make_unique<char[]>(kBlockSize));
    block_left_ = kBlockSize;
  }
  char* const to = blocks_.back().get() + (kBlockSize - block_left_);
  std::memcpy(to, text.data(), text.size());
  block_left_ -= text.size();
  return {to, text.size()};
}

void NamePool::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(std::max<std::size_t>(1024, old.size() * 2), {});
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.name < 0) continue;
    std::size_t at = slot.hash & mask;
    while (slots_[at].name >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

NameIndex NamePool::intern(std::string_view text) {
  if (2 * (names_.size() + 1) > slots_.size()) grow();
  const std::uint32_t hash = hash_of(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.name >= 0) return slot.name;
  FERRY_CHECK(names_.size() < std::numeric_limits<NameIndex>::max(), ParseError, "a trace of more than 2^31 names");
  names_.push_back(keep(text));
  slot = {hash, static_cast<NameIndex>(names_.size() - 1)};
  return slot.name;
}

NameIndex NamePool::find(std::string_view text) const {
  return slots_.empty() ? -1 : slots_[slot_of(text, hash_of(text))].name;
}

}  // namespace ferry::profiler::analysis
