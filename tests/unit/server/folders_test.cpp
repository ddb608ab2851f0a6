#include "server/repository/folders.h"

#include <gmock/gmock.h>

#include "fakes.h"
#include "server/repository/model_state.h"

namespace tutti::server {
namespace {

using test::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Folders, ModelNamesAreFoldersOfAllRepositories) {
  TempFolder first, second;
  first.write("b/1/model.plan", "");
  first.write("readme.txt", "");
  first.write(".git/config", "");
  first.write(".../1/model.plan", "");
  second.write("a/config.pbtxt", "");
  const auto names = list_model_names({first.path(), second.path()});
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("...", "a", "b"));
  EXPECT_EQ(list_model_names({"/no/such"}).status().code(), StatusCode::kNotFound);
}

TEST(Folders, ModelInTwoRepositoriesIsAnErrorWithBoth) {
  TempFolder first, second;
  first.write("m/1/model.plan", "");
  second.write("m/1/model.plan", "");
  const auto found = find_model_folder({first.path(), second.path()}, "m");
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(found.status().message(), HasSubstr(first.path()));
  EXPECT_THAT(found.status().message(), HasSubstr(second.path()));
  EXPECT_EQ(find_model_folder({first.path()}, "n").status().code(), StatusCode::kNotFound);
}

TEST(Folders, VersionsAreNumbersWithoutLeadingZeroNewestFirst) {
  TempFolder folder;
  for (const char* name : {"1", "01", "10", "9", "v2", "2x", "0", "tmp"}) {
    folder.write(std::string("m/") + name + "/model.plan", "");
  }
  folder.write("m/3", "a file, no folder");
  const auto versions = list_versions({"m", folder.path() + "/m"}, make_silent_log());
  ASSERT_TRUE(versions.ok());
  EXPECT_THAT(*versions, ElementsAre(10, 9, 1));
}

TEST(Folders, PolicyChoosesVersions) {
  const std::vector<std::int64_t> available = {7, 3, 1};
  inference::ModelVersionPolicy policy;
  EXPECT_THAT(*choose_versions(policy, available), ElementsAre(7));
  policy.mutable_latest()->set_num_versions(2);
  EXPECT_THAT(*choose_versions(policy, available), ElementsAre(7, 3));
  policy.mutable_latest()->set_num_versions(9);
  EXPECT_THAT(*choose_versions(policy, available), ElementsAre(7, 3, 1));
  policy.mutable_all();
  EXPECT_THAT(*choose_versions(policy, available), ElementsAre(7, 3, 1));
  policy.mutable_specific()->add_versions(1);
  policy.mutable_specific()->add_versions(3);
  policy.mutable_specific()->add_versions(1);
  EXPECT_THAT(*choose_versions(policy, available), ElementsAre(3, 1));
  policy.mutable_specific()->add_versions(2);
  EXPECT_THAT(choose_versions(policy, available).status().message(),
              HasSubstr("version 2 is not there, available: [7, 3, 1]"));
  EXPECT_FALSE(choose_versions({}, {}).ok());
}

TEST(ModelState, OnlyTheTransitionsOfTheTableHappen) {
  using S = ModelState;
  using E = ModelEvent;
  const std::map<std::pair<S, E>, S> legal = {
      {{S::kUnavailable, E::kLoad}, S::kLoading},
      {{S::kLoading, E::kLoaded}, S::kReady},
      {{S::kLoading, E::kFailed}, S::kUnavailable},
      {{S::kReady, E::kLoad}, S::kReady},
      {{S::kReady, E::kLoaded}, S::kReady},
      {{S::kReady, E::kFailed}, S::kReady},
      {{S::kReady, E::kUnload}, S::kUnloading},
      {{S::kUnloading, E::kUnloaded}, S::kUnavailable},
  };
  for (const S state : {S::kUnavailable, S::kLoading, S::kReady, S::kUnloading}) {
    for (const E event : {E::kLoad, E::kLoaded, E::kFailed, E::kUnload, E::kUnloaded}) {
      const auto expected = legal.find({state, event});
      const auto next = next_state(state, event);
      const auto wanted = expected == legal.end() ? std::nullopt : std::optional(expected->second);
      EXPECT_EQ(next, wanted) << model_state_name(state) << " " << static_cast<int>(event);
    }
  }
}

}  // namespace
}  // namespace tutti::server
