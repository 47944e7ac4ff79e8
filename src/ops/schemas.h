// The schemas, declared for the op files that call each other and for the list.
#pragma once

#include <source_location>

#include "src/ops/attributes.h"
#include "src/ops/op_schema.h"

namespace ferry::ops {

// batch_norm.cpp
extern const OpSchema kBatchNorm, kBatchNormApply, kBatchNormBackward, kBatchNormInference, kRunningAverage;
// binary.cpp
extern const OpSchema kAdd, kSub, kMul, kDiv, kMaximum, kMinimum, kSquareError, kSquareErrorBackward,
    kSquareErrorScalar, kSquareErrorScalarBackward, kEqual, kGreater, kLess, kAddInPlace, kSubInPlace, kMulInPlace,
    kAddScalar, kMulScalar, kRsubScalar, kRdivScalar, kPowScalar, kMulScalarInPlace;
// concat.cpp
extern const OpSchema kConcat;
// conv2d.cpp
extern const OpSchema kConv2d, kConv2dBackwardInput, kConv2dBackwardWeight;
// copy.cpp
extern const OpSchema kCopy, kCopyInPlace;
// creation.cpp
extern const OpSchema kFill, kFillInPlace, kUniform, kNormal, kArange;
// embedding.cpp
extern const OpSchema kEmbedding, kEmbeddingDenseBackward, kEmbeddingBag, kEmbeddingBagBackward;
// l2_normalize.cpp
extern const OpSchema kL2Normalize, kL2NormalizeBackward;
// matmul.cpp
extern const OpSchema kMatmul, kLinear;
// pool2d.cpp
extern const OpSchema kMaxPool2d, kMaxPool2dBackward, kAvgPool2d, kAvgPool2dBackward;
// reduce.cpp
extern const OpSchema kSum, kMean, kMax, kArgmax;
// row_sparse.cpp
extern const OpSchema kCoalesce, kScatterAddRows;
// slice.cpp
extern const OpSchema kShape, kSlice, kCrop, kSliceBackward;
// losses.cpp
extern const OpSchema kSoftmaxCrossEntropy, kSoftmaxCrossEntropyBackward;
// transfer.cpp
extern const OpSchema kTo;
// unary.cpp
extern const OpSchema kReluBackward, kTanhBackward, kSigmoidBackward, kAbsBackward, kNeg, kAbs, kExp, kLog, kSqrt,
    kSquare, kRelu, kTanh, kSigmoid, kReluBackwardInPlace, kTanhBackwardInPlace, kSigmoidBackwardInPlace;
// views.cpp
extern const OpSchema kReshape, kPermute, kNarrow, kExpand;

// `forward`'s slice of zeros of `shape` with dy in it.
Tensor slice_backward(const Tensor& dy, const SliceAttributes& forward, const Shape& shape, std::source_location where);

// x's elements row-major and of `dtype`, always a new tensor.
Tensor copy_dense(const Tensor& x, DType dtype, std::source_location where);

}  // namespace ferry::ops
