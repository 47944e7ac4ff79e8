#include "src/memory/compaction.h"

#include <utility>

#include "src/memory/block_bins.h"

namespace ferry::memory {
namespace {

class Search {
 public:
  Search(Bytes size, const std::function<bool(void*)>& may_move)
      : size_(size), may_move_(may_move), least_(size * kMostMoved + kBlockUnit) {}

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
    return block.state == BlockState::allocated && block.holds == nullptr && may_move_(block.data);
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
      } else if (run_[i]->size.count > gap.count * kMostPieces) {
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
  std::vector<Block*> run_;
  std::size_t counted_ = 0;  // of the run, whose free bytes are summed
  Bytes least_;              // bytes that move, of the best window
  Compaction best_;
};

}  // namespace

Compaction cheapest_compaction(const Segment* segments, Bytes size, const std::function<bool(void*)>& may_move) {
  Search search(size, may_move);
  for (const Segment* segment = segments; segment != nullptr; segment = segment->next) {
    if (segment->pool == PoolKind::large) search.look_through(*segment);
  }
  return std::move(search).result();
}

}  // namespace ferry::memory
