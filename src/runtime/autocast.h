// The types that ops get inside Autocast scopes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <source_location>
#include <utility>
#include <vector>

#include <ferry/autocast.h>
#include <ferry/tensor.h>
#include "src/ops/op_schema.h"

namespace ferry {

// Parameters and their casts. Thread-safe: a backward that computes a region again may run beside its scope's thread.
class AutocastCache {
 public:
  // `parameter` in `dtype`, cast the first time and when it was written since.
  Tensor cast(const Tensor& parameter, DType dtype, std::source_location where);

 private:
  struct Entry {
    Tensor parameter, cast;
    std::uint32_t version = 0;
  };
  std::mutex mutex_;
  std::map<std::pair<const TensorImpl*, DType>, Entry> entries_;
};

struct AutocastFrame : std::enable_shared_from_this<AutocastFrame> {
  bool enabled = false;
  DType dtype = DType::bf16;
  bool caches_parameters = true;
  std::shared_ptr<AutocastCache> cache;  // the outermost scope's
};

// Null: ops run in the types they get.
const AutocastFrame* autocast_frame();

// The frame of another time or, with null, none is innermost on the calling thread.
class [[nodiscard]] RestoredAutocast {
 public:
  explicit RestoredAutocast(std::shared_ptr<const AutocastFrame> frame);
  ~RestoredAutocast();
  RestoredAutocast(const RestoredAutocast&) = delete;
  RestoredAutocast& operator=(const RestoredAutocast&) = delete;

 private:
  std::shared_ptr<const AutocastFrame> frame_;
  const AutocastFrame* outer_;
};

// A call's inputs in the types that `frame` gives them.
class CastInputs {
 public:
  CastInputs(const AutocastFrame& frame, const ops::OpSchema& schema, ops::TensorPointers inputs,
             std::source_location where);
  // Valid as long as this and the inputs are.
  ops::TensorPointers get() const { return casts_.empty() ? inputs_ : ops::TensorPointers(pointers_); }

 private:
  ops::TensorPointers inputs_;
  std::vector<Tensor> casts_;
  std::vector<const Tensor*> pointers_;
};

}  // namespace ferry
