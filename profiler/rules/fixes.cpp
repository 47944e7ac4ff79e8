#include "profiler/rules/fixes.h"

namespace ferry::profiler::rules {
namespace {

using analysis::Framework;

const char* pytorch(Fix fix) {
  switch (fix) {
    case Fix::pin_source:
      return "copy from pinned memory without waiting: DataLoader(pin_memory=True) or tensor.pin_memory(), then "
             ".to(device, non_blocking=True)";
    case Fix::pin_async_source:
      return "non_blocking=True does nothing for pageable memory: pin it once with tensor.pin_memory() "
             "(torch.empty(..., pin_memory=True) for a buffer that is used again)";
    case Fix::read_later:
      return "copy into a pinned tensor with .copy_(x, non_blocking=True), record a torch.cuda.Event, and wait for it "
             "where the value is used, a step later";
    case Fix::keep_on_gpu:
      return "keep the value on the GPU: torch.where or a mask in place of an if, sum losses in a tensor and call "
             ".item() every N steps; give shapes that are known (torch.nonzero_static) instead of reading them";
    case Fix::narrow_wait:
      return "drop torch.cuda.synchronize(), or wait for one event: torch.cuda.Event().synchronize()";
    case Fix::keep_memory:
      return "cudaFree waits for the device: leave memory to the caching allocator (no torch.cuda.empty_cache() in the "
             "loop), PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation";
    case Fix::memset_on_stream:
      return "use tensor.zero_() or torch.zeros(..., device='cuda'), which set memory in stream order";
    case Fix::stay_on_gpu:
      return "the tensor comes back unchanged in size: compute what is between the two copies on the GPU, or keep the "
             "GPU's tensor beside the host's copy";
    case Fix::make_on_gpu:
      return "make it on the GPU: torch.full, torch.arange or torch.tensor(..., device='cuda') once before the loop; "
             "pass Python numbers as scalars";
    case Fix::launch_ahead:
      return "the host launches too late: remove waits above, use torch.compile or CUDA graphs for many small kernels";
    case Fix::load_ahead:
      return "load ahead: DataLoader(num_workers=N, prefetch_factor=4, persistent_workers=True, pin_memory=True)";
  }
  return "";
}

const char* tensorflow(Fix fix) {
  switch (fix) {
    case Fix::pin_source:
    case Fix::pin_async_source:
    case Fix::make_on_gpu:
      return "feed from tf.data with .prefetch(tf.data.AUTOTUNE) and "
             "tf.data.experimental.prefetch_to_device('/gpu:0'); "
             "make constants inside the tf.function";
    case Fix::read_later:
    case Fix::keep_on_gpu:
      return "no .numpy(), float() or if on GPU tensors in the loop: keep metrics in tf.keras.metrics and read them "
             "every N steps; use tf.cond within a tf.function";
    case Fix::stay_on_gpu:
      return "an op without a GPU kernel stands between the copies: tf.debugging.set_log_device_placement(True) names "
             "it";
    case Fix::load_ahead:
      return "load ahead: tf.data with .map(..., num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)";
    default:
      return "run the step as one tf.function (jit_compile=True) without reads of values in it";
  }
}

const char* jax(Fix fix) {
  switch (fix) {
    case Fix::pin_source:
    case Fix::pin_async_source:
    case Fix::make_on_gpu:
      return "jax.device_put the next batch before this step's result is awaited; make constants inside the jitted "
             "function";
    case Fix::read_later:
    case Fix::keep_on_gpu:
      return "no float(x), np.asarray(x) or print in the loop: call x.copy_to_host_async() and read a step later; "
             "jnp.where or lax.cond in place of an if";
    case Fix::load_ahead:
      return "load ahead in another thread, and keep two batches on the device";
    default:
      return "keep the step in one jax.jit, and call block_until_ready outside of the loop";
  }
}

const char* paddle(Fix fix) {
  switch (fix) {
    case Fix::pin_source:
    case Fix::pin_async_source:
      return "copy from pinned memory without waiting: x.pin_memory() (CUDAPinnedPlace), then x.cuda(blocking=False); "
             "DataLoader(use_buffer_reader=True, places=...)";
    case Fix::read_later:
      return "put the op that reads in host memory on the CPU with its inputs, or read the value a step later: "
             "x.pin_memory() and an event";
    case Fix::keep_on_gpu:
      return "no .item(), .numpy() or if on GPU tensors in the loop: paddle.where, and read losses every N steps";
    case Fix::narrow_wait:
      return "drop paddle.device.synchronize(), or wait for one event";
    case Fix::keep_memory:
      return "leave memory to the allocator: FLAGS_allocator_strategy=auto_growth, no empty_cache in the loop";
    case Fix::stay_on_gpu:
      return "the op between the two copies runs on the CPU: give it a GPU kernel, or keep its inputs on the CPU with "
             "paddle.static.device_guard('cpu')";
    case Fix::make_on_gpu:
      return "make it on the GPU: paddle.full and paddle.arange once before the loop";
    case Fix::load_ahead:
      return "load ahead: DataLoader(num_workers=N, prefetch_factor=4, persistent_workers=True)";
    default:
      return "launch ahead: remove the waits above, use paddle.jit.to_static for many small kernels";
  }
}

const char* cuda(Fix fix) {
  switch (fix) {
    case Fix::pin_source:
      return "copy from pinned memory (cudaHostAlloc) with cudaMemcpyAsync, and wait for an event where the data is "
             "needed";
    case Fix::pin_async_source:
      return "cudaMemcpyAsync waits for pageable memory: allocate it with cudaHostAlloc or pin it with "
             "cudaHostRegister";
    case Fix::read_later:
    case Fix::keep_on_gpu:
      return "copy into pinned memory with cudaMemcpyAsync, record an event behind it, and wait for the event where "
             "the "
             "value is used";
    case Fix::narrow_wait:
      return "replace cudaDeviceSynchronize by cudaStreamWaitEvent between streams, or by cudaEventSynchronize";
    case Fix::keep_memory:
      return "cudaFree waits for the device: allocate once, or use cudaMallocAsync and cudaFreeAsync";
    case Fix::memset_on_stream:
      return "use cudaMemsetAsync on the stream that needs it";
    case Fix::stay_on_gpu:
      return "the data comes back unchanged in size: compute what is between the two copies on the GPU";
    case Fix::make_on_gpu:
      return "pass small values as kernel arguments, or gather them in one pinned buffer and copy once";
    case Fix::launch_ahead:
      return "the host launches too late: remove waits above, use CUDA graphs for many small kernels";
    case Fix::load_ahead:
      return "prepare the next batch in another thread while this one is computed";
  }
  return "";
}

const char* ferry(Fix fix) {
  switch (fix) {
    case Fix::pin_source:
    case Fix::pin_async_source:
    case Fix::read_later:
    case Fix::stay_on_gpu:
      return "put the op that makes the tensor and the op that reads it on one device with a DeviceGuard (`ferry "
             "report` "
             "computes which), or use CopyMode::staged";
    case Fix::keep_on_gpu:
      return "read the value every N steps, or a step later";
    default:
      return "see `ferry report` of the recording";
  }
}

}  // namespace

std::string fix_text(Framework framework, Fix fix) {
  switch (framework) {
    case Framework::pytorch:
      return pytorch(fix);
    case Framework::tensorflow:
      return tensorflow(fix);
    case Framework::jax:
      return jax(fix);
    case Framework::paddle:
      return paddle(fix);
    case Framework::cuda:
      return cuda(fix);
    case Framework::ferry:
      return ferry(fix);
  }
  return "";
}

}  // namespace ferry::profiler::rules
