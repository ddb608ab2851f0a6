// The life of a rank group as a table of states and events.
//
//   Idle --launch--> Running --finish--> Idle
//                    Running --fail----> Failed --begin_rebuild--> Rebuilding --rebuilt--> Idle
//                                        Failed <--rebuild_failed- Rebuilding
//   any  --stop----> Stopped
#pragma once

#include <optional>
#include <string_view>

namespace tutti {

enum class GroupState { kIdle, kRunning, kFailed, kRebuilding, kStopped };
enum class GroupEvent { kLaunch, kFinish, kFail, kBeginRebuild, kRebuilt, kRebuildFailed, kStop };

std::string_view group_state_name(GroupState state);
std::string_view group_event_name(GroupEvent event);

// The state after `event`; nullopt where the event cannot happen.
std::optional<GroupState> next_state(GroupState state, GroupEvent event);

// Requests are served: now or when the running one is done.
inline bool is_ready(GroupState state) {
  return state == GroupState::kIdle || state == GroupState::kRunning;
}

}  // namespace tutti
