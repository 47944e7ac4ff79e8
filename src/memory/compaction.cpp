#include "src/memory/compaction.h"

#include <utility>

#include "src/memory/block_bins.h"

namespace ferry::memory {
namespace {

class Search {
 public:
  Search(Bytes size, const std::function<bool(void*)>& may_move, const CompactionLimits& limits)
      : size_(size), may_move_(may_move), limits_(limits), least_(size * limits.most_moved + kBlockUnit) {}

  void look_through(const Segment& segment) {
    run_.clear();
    for (Block* block = segment.first; block != nullptr; block = block->right) {
      if (!run_.empty() && block->stream != run_.back()->stream) look_through_run();
      if (is_free(*block) || slides(*block)) {
        run_.push_back(block);
      } else {
        look_through_run();
      }
    }
    look_through_run();
  }

  Compaction result() && { return std::move(best_); }

 private:
  static bool is_free(const Block& block) { return block.state == BlockState::free; }
  bool slides(const Block& block) const {
    if (block.holds != nullptr) return limits_.slides_segments && slides_whole(*block.holds, block.stream);
    return block.state == BlockState::allocated && may_move_(block.data);
  }
  bool slides_whole(const Segment& segment, StreamId stream) const {
    for (const Block* block = segment.first; block != nullptr; block = block->right)
      if (block->stream != stream || !(is_free(*block) || slides(*block))) return false;
    return true;
  }

  // For each end the window with fewest bytes that move is the shortest that has enough free ones; when one of its
  // blocks would need too many pieces, a longer one lets the blocks slide further.
  void look_through_run() {
    Bytes free;
    std::size_t begin = 0;
    for (std::size_t end = 1; end <= run_.size(); ++end) {
      const Block& last = *run_[end - 1];
      if (!is_free(last)) continue;  // a window that ends with a block moves it for nothing
      while (counted_ < end) free += free_bytes(*run_[counted_++]);
      while (free - free_bytes(*run_[begin]) >= size_) free = free - free_bytes(*run_[begin++]);
      if (free >= size_) consider_from(begin, end);
    }
    run_.clear();
    counted_ = 0;
  }

  static Bytes free_bytes(const Block& block) { return is_free(block) ? block.size : Bytes{}; }

  void consider_from(std::size_t begin, std::size_t end) {
    Bytes moved;
    for (std::size_t i = begin; i < end; ++i) moved += run_[i]->size - free_bytes(*run_[i]);
    for (;; --begin) {
      if (moved >= least_) return;
      if (is_free(*run_[begin]) && in_few_pieces(begin, end)) return take(begin, end, moved);
      if (begin == 0) return;
      moved += run_[begin - 1]->size - free_bytes(*run_[begin - 1]);
    }
  }

  bool in_few_pieces(std::size_t begin, std::size_t end) const {
    Bytes gap;
    for (std::size_t i = begin; i < end; ++i) {
      if (is_free(*run_[i])) {
        gap += run_[i]->size;
      } else if (run_[i]->size.count > gap.count * limits_.most_pieces) {
        return false;
      }
    }
    return true;
  }

  void take(std::size_t begin, std::size_t end, Bytes moved) {
    least_ = moved;
    best_ = {.found = true, .slide = {}};
    for (std::size_t i = begin; i < end; ++i)
      if (!is_free(*run_[i])) best_.slide.push_back(run_[i]);
  }

  const Bytes size_;
  const std::function<bool(void*)>& may_move_;
  const CompactionLimits limits_;
  std::vector<Block*> run_;
  std::size_t counted_ = 0;  // of the run, whose free bytes are summed
  Bytes least_;              // bytes that move, of the best window
  Compaction best_;
};

}  // namespace

Compaction cheapest_compaction(const Segment* segments, PoolKind pool, Bytes size,
                               const std::function<bool(void*)>& may_move, const CompactionLimits& limits) {
  Search search(size, may_move, limits);
  for (const Segment* segment = segments; segment != nullptr; segment = segment->next) {
    if (segment->pool == pool) search.look_through(*segment);
  }
  return std::move(search).result();
}

}  // namespace ferry::memory
