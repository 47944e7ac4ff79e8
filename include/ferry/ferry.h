// All of ferry's public interface.
#pragma once

#include <ferry/attention.h>
#include <ferry/autocast.h>
#include <ferry/checkpoint.h>
#include <ferry/device.h>
#include <ferry/device_guard.h>
#include <ferry/dtype.h>
#include <ferry/error.h>
#include <ferry/grad_scaler.h>
#include <ferry/init.h>
#include <ferry/max_batch.h>
#include <ferry/models.h>
#include <ferry/nn.h>
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include <ferry/optim.h>
#include <ferry/profiler.h>
#include <ferry/random.h>
#include <ferry/recurrent.h>
#include <ferry/runtime.h>
#include <ferry/safetensors.h>
#include <ferry/schedule.h>
#include <ferry/scope.h>
#include <ferry/shape.h>
#include <ferry/tensor.h>
#include <ferry/units.h>
