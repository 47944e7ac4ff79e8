#include "src/ops/op_list.h"

#include <array>

#include "src/ops/activations.h"
#include "src/ops/attention.h"
#include "src/ops/convolution.h"
#include "src/ops/indexing.h"
#include "src/ops/losses.h"
#include "src/ops/normalization.h"
#include "src/ops/optimizer.h"
#include "src/ops/recurrent.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

constexpr std::array kOps = {
    &kAttention,
    &kAttentionBackward,
    &kSoftmax,
    &kSoftmaxBackward,
    &kLogSoftmax,
    &kLogSoftmaxBackward,
    &kGelu,
    &kGeluBackward,
    &kSilu,
    &kSiluBackward,
    &kLeakyRelu,
    &kLeakyReluBackward,
    &kDropout,
    &kDropoutBackward,
    &kBatchNorm,
    &kBatchNormApply,
    &kBatchNormBackward,
    &kBatchNormInference,
    &kRunningAverage,
    &kLayerNorm,
    &kLayerNormBackward,
    &kGroupNorm,
    &kGroupNormBackward,
    &kAdd,
    &kSub,
    &kMul,
    &kDiv,
    &kMaximum,
    &kMinimum,
    &kSquareError,
    &kSquareErrorBackward,
    &kSquareErrorScalar,
    &kSquareErrorScalarBackward,
    &kEqual,
    &kGreater,
    &kLess,
    &kAddInPlace,
    &kSubInPlace,
    &kMulInPlace,
    &kAddScalar,
    &kMulScalar,
    &kRsubScalar,
    &kRdivScalar,
    &kPowScalar,
    &kMulScalarInPlace,
    &kConcat,
    &kConv2d,
    &kConv2dBackwardInput,
    &kConv2dBackwardWeight,
    &kCopy,
    &kCopyInPlace,
    &kFill,
    &kFillInPlace,
    &kUniform,
    &kNormal,
    &kArange,
    &kEmbedding,
    &kEmbeddingDenseBackward,
    &kEmbeddingBag,
    &kEmbeddingBagBackward,
    &kL2Normalize,
    &kL2NormalizeBackward,
    &kMatmul,
    &kLinear,
    &kMaxPool2d,
    &kMaxPool2dBackward,
    &kAvgPool2d,
    &kAvgPool2dBackward,
    &kSum,
    &kMean,
    &kMax,
    &kArgmax,
    &kLstmLayer,
    &kLstmLayerBackward,
    &kGruLayer,
    &kGruLayerBackward,
    &kCoalesce,
    &kScatterAddRows,
    &kSgd,
    &kSgdRows,
    &kAdam,
    &kAdamRows,
    &kAdamW,
    &kAdamWRows,
    &kAdagrad,
    &kAdagradRows,
    &kScaleAll,
    &kUnscaleAll,
    &kClampAll,
    &kSquareSum,
    &kShape,
    &kSlice,
    &kCrop,
    &kSliceBackward,
    &kSoftmaxCrossEntropy,
    &kSoftmaxCrossEntropyBackward,
    &kCrossEntropy,
    &kCrossEntropyBackward,
    &kNllLoss,
    &kNllLossBackward,
    &kBinaryCrossEntropy,
    &kBinaryCrossEntropyBackward,
    &kTo,
    &kReluBackward,
    &kTanhBackward,
    &kSigmoidBackward,
    &kReluBackwardInPlace,
    &kTanhBackwardInPlace,
    &kSigmoidBackwardInPlace,
    &kAbsBackward,
    &kNeg,
    &kAbs,
    &kExp,
    &kLog,
    &kSqrt,
    &kSquare,
    &kRelu,
    &kTanh,
    &kSigmoid,
    &kReshape,
    &kPermute,
    &kNarrow,
    &kExpand,
    &kGather,
    &kGatherBackward,
    &kIndexSelect,
    &kIndexSelectBackward,
    &kWhere,
    &kMaskedFill,
    &kPad,
    &kPadBackward,
    &kFlip,
    &kSplit,
    &kConvTranspose2d,
    &kConvTranspose2dBackwardInput,
    &kUpsample2d,
    &kUpsample2dBackward,
    &kAdaptiveAvgPool2d,
    &kAdaptiveAvgPool2dBackward,
};

std::span<const OpSchema* const> number_ops() {
  for (std::size_t i = 0; i < kOps.size(); ++i) kOps[i]->slot = static_cast<std::int16_t>(i);
  return kOps;
}

}  // namespace

std::span<const OpSchema* const> all_ops() {
  static const std::span<const OpSchema* const> kNumbered = number_ops();
  return kNumbered;
}

const OpSchema* find_op(std::string_view name) {
  for (const OpSchema* schema : all_ops()) {
    if (schema->name == name) return schema;
  }
  return nullptr;
}

}  // namespace ferry::ops
