#include "src/memory/room.h"

#include <limits>
#include <span>

namespace ferry::memory {
namespace {

// Windows of one cost differ in how many blocks they need; fewest are best, none meaning that there is room already.
struct Weight {
  double cost = 0;
  std::int64_t blocks = 0;

  bool finite() const { return cost < std::numeric_limits<double>::infinity(); }
  auto operator<=>(const Weight&) const = default;
  friend Weight operator+(Weight a, Weight b) { return {a.cost + b.cost, a.blocks + b.blocks}; }
};

struct Piece {
  const Block* block;
  Weight weight;
};

class Search {
 public:
  Search(Bytes size, const std::function<double(void*)>& cost) : size_(size), cost_(cost) {}

  // Neighbours of two streams never become one block, and blocks that must stay end a run as well.
  void look_through(const Segment& segment) {
    pieces_.clear();
    for (const Block* block = segment.first; block != nullptr; block = block->right) {
      const Weight weight = weight_of(*block);
      if (!pieces_.empty() && block->stream != pieces_.back().block->stream) look_through_run();
      if (weight.finite()) {
        pieces_.push_back({block, weight});
      } else {
        look_through_run();
      }
    }
    look_through_run();
  }

  std::optional<std::vector<void*>> result() const {
    if (first_ == nullptr) return std::nullopt;
    std::vector<void*> blocks;
    for (const Block* block = first_;; block = block->right) {
      append(*block, blocks);
      if (block == last_) return blocks;
    }
  }

 private:
  Weight weight_of(const Block& block) const {
    if (block.holds != nullptr) {
      Weight sum;
      for (const Block* inner = block.holds->first; inner != nullptr; inner = inner->right) {
        sum = sum + weight_of(*inner);
      }
      return sum;
    }
    return block.state == BlockState::allocated ? Weight{cost_(block.data), 1} : Weight{};
  }

  static void append(const Block& block, std::vector<void*>& blocks) {
    if (block.holds != nullptr) {
      for (const Block* inner = block.holds->first; inner != nullptr; inner = inner->right) append(*inner, blocks);
    } else if (block.state == BlockState::allocated) {
      blocks.push_back(block.data);
    }
  }

  // Slides a window over the run. Its weight is the sum of [begin, middle), kept for every begin, and of [middle, end):
  // weights are never subtracted, so that small costs beside large ones keep their digits.
  void look_through_run() {
    const std::span<const Piece> run = pieces_;
    low_.resize(run.size());
    Weight high;
    Bytes inside;
    std::size_t begin = 0, middle = 0;
    for (std::size_t end = 1; end <= run.size(); ++end) {
      high = high + run[end - 1].weight;
      inside += run[end - 1].block->size;
      while (inside >= size_) {
        consider(begin < middle ? low_[begin] + high : high, *run[begin].block, *run[end - 1].block);
        if (begin == middle) {
          Weight sum;
          for (std::size_t i = end; i-- > begin;) low_[i] = sum = run[i].weight + sum;
          middle = end;
          high = {};
        }
        inside -= run[begin++].block->size;
      }
    }
    pieces_.clear();
  }

  void consider(Weight weight, const Block& first, const Block& last) {
    if (first_ != nullptr && weight >= best_) return;
    best_ = weight;
    first_ = &first;
    last_ = &last;
  }

  const Bytes size_;
  const std::function<double(void*)>& cost_;
  std::vector<Piece> pieces_;  // of the run
  std::vector<Weight> low_;
  Weight best_;
  const Block* first_ = nullptr;  // of the best window
  const Block* last_ = nullptr;
};

}  // namespace

std::optional<std::vector<void*>> cheapest_room(const Segment* segments, const RoomRequest& request,
                                                const std::function<double(void*)>& cost) {
  Search search(request.size, cost);
  const bool anywhere = request.pool == PoolKind::small && request.anywhere_if_small;
  for (const Segment* segment = segments; segment != nullptr; segment = segment->next) {
    if (anywhere || segment->pool == request.pool) search.look_through(*segment);
  }
  return search.result();
}

}  // namespace ferry::memory
