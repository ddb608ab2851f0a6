// The life of one version of a model in the repository.
//
//   unavailable --load--> loading --loaded--> ready --unload--> unloading --unloaded--> unavailable
//                         loading --failed--> unavailable
//                         ready --load--> ready   (a reload: the old one serves until the new one
//                         can) ready --loaded / failed--> ready
#pragma once

#include <optional>
#include <string_view>

namespace tutti::server {

enum class ModelState { kUnavailable, kLoading, kReady, kUnloading };
enum class ModelEvent { kLoad, kLoaded, kFailed, kUnload, kUnloaded };

// Triton's words: "UNAVAILABLE", "LOADING", "READY", "UNLOADING".
std::string_view model_state_name(ModelState state);

// Nothing when the event cannot happen in that state.
std::optional<ModelState> next_state(ModelState state, ModelEvent event);

}  // namespace tutti::server
