// Where training data comes from: batches that follow from the seed and the step alone, so that a resumed run sees what
// the interrupted one would have seen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ferry/models.h>

namespace ferry::cli {

class DataSource {
 public:
  virtual ~DataSource() = default;
  // The batch of step `step`, from 0.
  virtual models::Batch batch(std::int64_t step) const = 0;
  // "60,000 pictures of /usr/share/…".
  virtual std::string describe() const = 0;
};

// `text`: "random" (noise in the model's shapes), "fashion-mnist" (Debian's pictures, scaled to the model's) or
// "text:FILE" (bytes of a file as tokens; each predicts the next).
// Throws: InvalidArgument for other texts, for data that the model does not take, for files that cannot be read.
std::unique_ptr<DataSource> open_data(const std::string& text, const models::Model& model, std::int64_t batch,
                                      std::uint64_t seed);

}  // namespace ferry::cli
