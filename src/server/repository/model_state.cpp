#include "server/repository/model_state.h"

namespace tutti::server {
namespace {

struct Transition {
  ModelState from;
  ModelEvent event;
  ModelState to;
};

constexpr Transition kTransitions[] = {
    {ModelState::kUnavailable, ModelEvent::kLoad, ModelState::kLoading},
    {ModelState::kLoading, ModelEvent::kLoaded, ModelState::kReady},
    {ModelState::kLoading, ModelEvent::kFailed, ModelState::kUnavailable},
    {ModelState::kReady, ModelEvent::kLoad, ModelState::kReady},
    {ModelState::kReady, ModelEvent::kLoaded, ModelState::kReady},
    {ModelState::kReady, ModelEvent::kFailed, ModelState::kReady},
    {ModelState::kReady, ModelEvent::kUnload, ModelState::kUnloading},
    {ModelState::kUnloading, ModelEvent::kUnloaded, ModelState::kUnavailable},
};

}  // namespace

std::string_view model_state_name(ModelState state) {
  switch (state) {
    case ModelState::kUnavailable: return "UNAVAILABLE";
    case ModelState::kLoading: return "LOADING";
    case ModelState::kReady: return "READY";
    case ModelState::kUnloading: return "UNLOADING";
  }
  return "UNKNOWN";
}

std::optional<ModelState> next_state(ModelState state, ModelEvent event) {
  for (const Transition& transition : kTransitions) {
    if (transition.from == state && transition.event == event) return transition.to;
  }
  return std::nullopt;
}

}  // namespace tutti::server
