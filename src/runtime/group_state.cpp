#include "runtime/group_state.h"

namespace tutti {
namespace {

struct Transition {
  GroupState from;
  GroupEvent event;
  GroupState to;
};

using enum GroupState;
using enum GroupEvent;

constexpr Transition kTransitions[] = {
    {kIdle, kLaunch, kRunning},
    {kIdle, kStop, kStopped},
    {kRunning, kFinish, kIdle},
    {kRunning, kFail, kFailed},
    {kRunning, kStop, kStopped},
    {kFailed, kBeginRebuild, kRebuilding},
    {kFailed, kStop, kStopped},
    {kRebuilding, kRebuilt, kIdle},
    {kRebuilding, kRebuildFailed, kFailed},
    {kRebuilding, kStop, kStopped},
    {kStopped, kStop, kStopped},
};

}  // namespace

std::optional<GroupState> next_state(GroupState state, GroupEvent event) {
  for (const Transition& transition : kTransitions) {
    if (transition.from == state && transition.event == event) return transition.to;
  }
  return std::nullopt;
}

std::string_view group_state_name(GroupState state) {
  switch (state) {
    case kIdle: return "idle";
    case kRunning: return "running";
    case kFailed: return "failed";
    case kRebuilding: return "rebuilding";
    case kStopped: return "stopped";
  }
  return "";
}

std::string_view group_event_name(GroupEvent event) {
  switch (event) {
    case kLaunch: return "launch";
    case kFinish: return "finish";
    case kFail: return "fail";
    case kBeginRebuild: return "begin_rebuild";
    case kRebuilt: return "rebuilt";
    case kRebuildFailed: return "rebuild_failed";
    case kStop: return "stop";
  }
  return "";
}

}  // namespace tutti
