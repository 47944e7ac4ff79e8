// The fields of each record of a Trace with their names in JSON, and the names of its enumerators: listed once, for all
// that read or write them.
//
// fields(visit, record) calls visit("name", record.name) for each field, in an order that never depends on the record.
#pragma once

#include <array>
#include <span>
#include <type_traits>

#include "src/trace/trace.h"

namespace ferry::trace {

inline constexpr std::array kPhases = {"forward", "backward", "optimizer", "recompute"};
inline constexpr std::array kPlacementCauses = {"default_device", "guard",    "placement_file",
                                                "op_rule",        "fallback", "inherited"};
inline constexpr std::array kMemories = {"device", "pageable", "pinned"};
inline constexpr std::array kCopyCauses = {"implicit", "fetch", "transfer", "swap"};
inline constexpr std::array kWorkKinds = {"kernel", "copy"};
inline constexpr std::array kEngines = {"compute", "host_to_device", "device_to_host"};

// Names of an enumeration, by value.
inline std::span<const char* const> names(Phase) { return kPhases; }
inline std::span<const char* const> names(PlacementCause) { return kPlacementCauses; }
inline std::span<const char* const> names(Memory) { return kMemories; }
inline std::span<const char* const> names(CopyCause) { return kCopyCauses; }
inline std::span<const char* const> names(WorkKind) { return kWorkKinds; }
inline std::span<const char* const> names(Engine) { return kEngines; }

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, Site> {
  visit("file", r.file);
  visit("line", r.line);
  visit("function", r.function);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, TensorInfo> {
  visit("name", r.name);
  visit("dtype", r.dtype);
  visit("shape", r.shape);
  visit("size", r.size);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, DeviceInfo> {
  visit("device", r.device);
  visit("name", r.name);
  visit("description", r.description);
  visit("virtual_time", r.virtual_time);
  visit("capacity", r.capacity);
  visit("peak_allocated", r.peak_allocated);
  visit("peak_reserved", r.peak_reserved);
  visit("streams", r.streams);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, Argument> {
  visit("tensor", r.tensor);
  visit("host", r.host);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, OpRecord> {
  visit("name", r.name);
  visit("site", r.site);
  visit("scope", r.scope);
  visit("device", r.device);
  visit("cause", r.cause);
  visit("phase", r.phase);
  visit("thread", r.thread);
  visit("correlation", r.correlation);
  visit("begin", r.begin);
  visit("end", r.end);
  visit("inputs", r.inputs);
  visit("outputs", r.outputs);
  visit("flops", r.flops);
  visit("bytes", r.bytes);
  visit("has_gpu_kernel", r.has_gpu_kernel);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, CopyRecord> {
  visit("op", r.op);
  visit("op_name", r.op_name);
  visit("site", r.site);
  visit("scope", r.scope);
  visit("tensor", r.tensor);
  visit("size", r.size);
  visit("from", r.from);
  visit("to", r.to);
  visit("from_memory", r.from_memory);
  visit("to_memory", r.to_memory);
  visit("synchronous", r.synchronous);
  visit("cause", r.cause);
  visit("placement", r.placement);
  visit("thread", r.thread);
  visit("correlation", r.correlation);
  visit("begin", r.begin);
  visit("end", r.end);
  visit("drain", r.drain);
  visit("transfer", r.transfer);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, WorkRecord> {
  visit("correlation", r.correlation);
  visit("kind", r.kind);
  visit("engine", r.engine);
  visit("device", r.device);
  visit("stream", r.stream);
  visit("begin", r.begin);
  visit("end", r.end);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, ScopeRecord> {
  visit("name", r.name);
  visit("thread", r.thread);
  visit("depth", r.depth);
  visit("begin", r.begin);
  visit("end", r.end);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, MemorySample> {
  visit("device", r.device);
  visit("at", r.at);
  visit("allocated", r.allocated);
  visit("reserved", r.reserved);
}

void fields(auto& visit, auto& r) requires std::is_same_v<std::remove_cvref_t<decltype(r)>, Trace> {
  visit("begin", r.begin);
  visit("end", r.end);
  visit("copy_mode", r.copy_mode);
  visit("unavailable_reads", r.unavailable_reads);
  visit("strings", r.strings);
  visit("sites", r.sites);
  visit("tensors", r.tensors);
  visit("devices", r.devices);
  visit("ops", r.ops);
  visit("copies", r.copies);
  visit("work", r.work);
  visit("scopes", r.scopes);
  visit("memory", r.memory);
}

}  // namespace ferry::trace
