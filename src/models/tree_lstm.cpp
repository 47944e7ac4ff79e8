// The constituency Tree-LSTM of Tai et al. for the sentiment of sentences: each sample has the shape of its own parse.
#include "src/base/check.h"
#include "src/models/families.h"
#include "src/models/image_classifier.h"
#include "src/models/random_data.h"

namespace ferry::models {
namespace {

struct Node {
  Tensor h, c;  // [1, units]
};

// Steps of a parse, as Batch::structure holds them: the tree's nodes, children before parents.
constexpr std::int64_t kLeaf = 0;    // pushes the next word
constexpr std::int64_t kBranch = 1;  // joins the two nodes pushed last
constexpr std::int64_t kEnd = 2;     // one node is left: the sentence

// The state of a word: c = W x + b, h = sigmoid(W' x + b') tanh(c).
class Leaf : public nn::Module {
 public:
  Leaf(std::int64_t features, std::int64_t units, DType dtype) {
    cell_ = register_module("cell", std::make_shared<nn::Linear>(features, units, true, dtype));
    output_ = register_module("output", std::make_shared<nn::Linear>(features, units, true, dtype));
  }
  // x: [words, features]
  Node operator()(const Tensor& x, const std::source_location& where) {
    return within(where, [&] {
      const Tensor c = (*cell_)(x);
      return Node{sigmoid((*output_)(x)) * tanh(c), c};
    });
  }

 private:
  std::shared_ptr<nn::Linear> cell_, output_;
};

// The state of a phrase from those of its two parts, by gates i, f (left), f (right), o and the update u.
class Branch : public nn::Module {
 public:
  Branch(std::int64_t units, DType dtype) : units_(units) {
    left_ = register_module("left", std::make_shared<nn::Linear>(units, 5 * units, true, dtype));
    right_ = register_module("right", std::make_shared<nn::Linear>(units, 5 * units, true, dtype));
  }
  using Module::operator();
  Node operator()(const Node& left, const Node& right, const std::source_location& where) {
    return within(where, [&] {
      const Tensor sums = (*left_)(left.h) + (*right_)(right.h);
      const Tensor gates = sigmoid(narrow(sums, 1, 0, 4 * units_));
      const auto gate = [&](std::int64_t i) { return narrow(gates, 1, i * units_, units_); };
      const Tensor update = tanh(narrow(sums, 1, 4 * units_, units_));
      const Tensor c = gate(0) * update + gate(1) * left.c + gate(2) * right.c;
      return Node{gate(3) * tanh(c), c};
    });
  }

 private:
  const std::int64_t units_;
  std::shared_ptr<nn::Linear> left_, right_;
};

struct Extents {
  std::int64_t features, units, classes, words;  // `words`: in the longest sentence
  DType dtype;
};

// Word vectors [words of all samples, features] → scores of each sentence [N, classes]. Targets: classes [N].
class TreeLstm : public Model {
 public:
  explicit TreeLstm(const Extents& extents) : extents_(extents) {
    leaf_ = register_module("leaf", std::make_shared<Leaf>(extents.features, extents.units, extents.dtype));
    branch_ = register_module("branch", std::make_shared<Branch>(extents.units, extents.dtype));
    output_ =
        register_module("output", std::make_shared<nn::Linear>(extents.units, extents.classes, true, extents.dtype));
  }

  // Sentences of half the longest to the longest, each with a random binary tree.
  Batch random_batch(std::int64_t size, std::uint64_t seed) const override {
    require_samples(size);
    RandomData data(seed);
    Batch batch{.inputs = {}, .targets = {}, .size = size};
    std::int64_t all_words = 0;
    for (std::int64_t sample = 0; sample < size; ++sample) {
      const std::int64_t half = (extents_.words + 1) / 2;
      const std::int64_t words = half + data.below(extents_.words - half + 1);
      all_words += words;
      add_tree(data, words, batch.structure);
    }
    batch.inputs = {named(data.noise({all_words, extents_.features}, extents_.dtype), "word vectors")};
    batch.targets = named(data.ids({size}, extents_.classes), "sentiments");
    return batch;
  }

 protected:
  Tensor logits_of(const Batch& batch) override {
    const auto where = std::source_location::current();
    const Node leaves = (*leaf_)(batch.inputs[0], where);
    std::vector<Node> stack;
    std::vector<Tensor> sentences;
    std::int64_t word = 0;
    for (const std::int64_t step : batch.structure) {
      if (step == kLeaf) {
        FERRY_CHECK(word < leaves.h.size(0), InvalidArgument, "tree_lstm: the trees have more leaves than the {} words",
                    leaves.h.size(0));
        stack.push_back({narrow(leaves.h, 0, word, 1), narrow(leaves.c, 0, word, 1)});
        ++word;
        continue;
      }
      FERRY_CHECK(stack.size() == 1 || (step == kBranch && stack.size() > 1), InvalidArgument,
                  "tree_lstm: structure is no list of binary trees");
      if (step == kBranch) {
        const Node right = stack.back();
        stack.pop_back();
        stack.back() = (*branch_)(stack.back(), right, where);
      } else {
        sentences.push_back(stack.back().h);
        stack.clear();
      }
    }
    return (*output_)(concat(sentences, 0));
  }
  Tensor loss_of(const Batch& batch) override { return softmax_cross_entropy(logits_of(batch), batch.targets); }

 private:
  // Joins two neighbours of the stack at random times.
  static void add_tree(RandomData& data, std::int64_t words, std::vector<std::int64_t>& structure) {
    std::int64_t depth = 0, read = 0;
    while (read < words || depth > 1) {
      const bool join = depth > 1 && (read == words || data.below(2) == 0);
      structure.push_back(join ? kBranch : kLeaf);
      depth += join ? -1 : 1;
      read += join ? 0 : 1;
    }
    structure.push_back(kEnd);
  }

  const Extents extents_;
  std::shared_ptr<Leaf> leaf_;
  std::shared_ptr<Branch> branch_;
  std::shared_ptr<nn::Linear> output_;
};

std::shared_ptr<Model> tree_lstm(const Options& options) {
  const bool small = options.small;
  return std::make_shared<TreeLstm>(Extents{small ? 10 : 300, small ? 8 : 150, or_published(options.classes, 5),
                                            or_published(options.sequence_length, small ? 6 : 40), options.dtype});
}

constexpr Entry kEntries[] = {
    {"tree_lstm",
     "Tai et al., Improved Semantic Representations From Tree-Structured Long Short-Term Memory Networks, 2015, "
     "arXiv:1503.00075",
     317'555, "table 1 of the paper: 316,800 for composition; 755 more for the classifier", tree_lstm},
};

}  // namespace

std::span<const Entry> tree_lstms() { return kEntries; }

}  // namespace ferry::models
