#include "runtime/group_state.h"

#include <gtest/gtest.h>

#include <map>

namespace tutti {
namespace {

using enum GroupState;
using enum GroupEvent;

constexpr GroupState kStates[] = {kIdle, kRunning, kFailed, kRebuilding, kStopped};
constexpr GroupEvent kEvents[] = {kLaunch,  kFinish,        kFail, kBeginRebuild,
                                  kRebuilt, kRebuildFailed, kStop};

TEST(GroupState, EveryStateAndEventIsAsTheHeaderDraws) {
  const std::map<std::pair<GroupState, GroupEvent>, GroupState> drawn = {
      {{kIdle, kLaunch}, kRunning},     {{kRunning, kFinish}, kIdle},
      {{kRunning, kFail}, kFailed},     {{kFailed, kBeginRebuild}, kRebuilding},
      {{kRebuilding, kRebuilt}, kIdle}, {{kRebuilding, kRebuildFailed}, kFailed},
      {{kIdle, kStop}, kStopped},       {{kRunning, kStop}, kStopped},
      {{kFailed, kStop}, kStopped},     {{kRebuilding, kStop}, kStopped},
      {{kStopped, kStop}, kStopped},
  };
  for (const GroupState state : kStates) {
    for (const GroupEvent event : kEvents) {
      const auto it = drawn.find({state, event});
      const std::optional<GroupState> next = next_state(state, event);
      EXPECT_EQ(next.has_value(), it != drawn.end())
          << group_state_name(state) << " " << group_event_name(event);
      if (next && it != drawn.end()) {
        EXPECT_EQ(*next, it->second);
      }
    }
  }
}

TEST(GroupState, OnlyIdleAndRunningGroupsAreReady) {
  EXPECT_TRUE(is_ready(kIdle));
  EXPECT_TRUE(is_ready(kRunning));
  EXPECT_FALSE(is_ready(kFailed));
  EXPECT_FALSE(is_ready(kRebuilding));
  EXPECT_FALSE(is_ready(kStopped));
}

TEST(GroupState, NothingLeavesStopped) {
  for (const GroupEvent event : kEvents) {
    if (event == kStop) continue;
    EXPECT_FALSE(next_state(kStopped, event).has_value());
  }
}

}  // namespace
}  // namespace tutti
