#include <ferry/scope.h>

#include <string>
#include <utility>

#include "src/runtime/restored_scope.h"
#include "src/runtime/runtime_core.h"

namespace ferry {
namespace {

struct ThreadScopes {
  std::string path;
  int depth = 0;
  const std::source_location* module_call = nullptr;
};

thread_local ThreadScopes scopes;

}  // namespace

Scope::Scope(std::string_view name, char separator, const std::source_location* module_call)
    : outer_length_(scopes.path.size()), outer_call_(scopes.module_call) {
  if (!scopes.path.empty() && !name.empty()) scopes.path += separator;
  scopes.path += name;
  ++scopes.depth;
  if (scopes.module_call == nullptr) scopes.module_call = module_call;
  const auto& core = current_core();
  recorded_ = core->recorder() != nullptr && !name.empty();
  if (recorded_) begin_ = core->clock().now();
}

Scope::~Scope() {
  --scopes.depth;
  if (recorded_) {
    const auto& core = current_core();
    profiler::Recorder* recorder = core->recorder();
    if (recorder != nullptr) recorder->record_scope(scopes.path, scopes.depth, begin_, core->clock().now());
  }
  scopes.path.resize(outer_length_);
  scopes.module_call = outer_call_;
}

RestoredScope::RestoredScope(std::string_view path) : outer_(std::exchange(scopes.path, std::string(path))) {}
RestoredScope::~RestoredScope() { scopes.path = std::move(outer_); }

std::string_view Scope::path() { return scopes.path; }
const std::source_location* Scope::module_call() { return scopes.module_call; }

}  // namespace ferry
