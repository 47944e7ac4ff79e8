// The models of the field, built of nn modules and ops: for experiments, benchmarks and tests.
//
//   const std::shared_ptr<models::Model> model = models::make("resnet50", {.dtype = DType::bf16});
//   const models::Batch batch = model->random_batch(64, 0);
//   model->loss(batch).backward();
//
// Parameters are made on the current device and drawn as each paper (or the code published with it) says. In
// timing-only mode no model takes memory or time to make. Names of parameters are those of the best known
// implementation, so that its safetensors files load: torchvision for image models, Hugging Face for BERT and GPT-2.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string_view>
#include <vector>

#include <ferry/nn.h>
#include <ferry/tensor.h>

namespace ferry::models {

// For Options::checkpoint_segments: as many as the square root of the number of blocks, which keeps the fewest results.
constexpr std::int64_t kSquareRootSegments = -1;

// 0: as published.
struct Options {
  DType dtype = DType::f32;
  std::int64_t classes = 0;
  std::int64_t image_size = 0;       // height and width
  std::int64_t sequence_length = 0;  // tokens a sample
  bool small = false;                // a tiny instance of the same structure, for tests
  // Blocks are run in so many segments whose activations are recomputed in backward; 0: all activations are kept.
  std::int64_t checkpoint_segments = 0;
};

// Samples and what is to be predicted of them, in host memory. What the tensors are is the model's affair.
struct Batch {
  std::vector<Tensor> inputs;
  Tensor targets;
  std::int64_t size = 0;  // samples
  // Plain data that steers the program, such as the trees of tree_lstm. Most models have none.
  std::vector<std::int64_t> structure{};
};

class Model : public nn::Module {
 public:
  using Where = std::source_location;

  // The scores that the loss is computed from, as the model's file states their shape.
  // Throws: ShapeError, InvalidArgument for a batch that is not the model's.
  Tensor logits(const Batch& batch, Where where = Where::current());
  // The mean over the samples' losses: a tensor of one element.
  Tensor loss(const Batch& batch, Where where = Where::current());
  // `size` samples of noise in the right shapes; equal for equal seeds. Throws: InvalidArgument unless size > 0.
  virtual Batch random_batch(std::int64_t size, std::uint64_t seed) const = 0;

 protected:
  virtual Tensor logits_of(const Batch& batch) = 0;
  virtual Tensor loss_of(const Batch& batch) = 0;
};

struct Entry {
  std::string_view name;       // "resnet50"
  std::string_view paper;      // authors, title, year, arXiv number
  std::int64_t parameters;     // as published for the model without options
  std::string_view reference;  // where that number is from
  std::shared_ptr<Model> (*make)(const Options&);
};

// Every model, by family.
std::span<const Entry> all();

// Throws: InvalidArgument for an unknown name (listing the names), or for an option that the model cannot have.
std::shared_ptr<Model> make(std::string_view name, const Options& options = {});

}  // namespace ferry::models
