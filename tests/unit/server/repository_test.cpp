#include "server/repository/repository.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "fakes.h"
#include "server/backend_loader.h"
#include "server/service.h"

namespace tutti::server {
namespace {

using test::FakeBackend;
using test::Gate;
using test::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RepositoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<ModelRepository> make(ControlMode mode, std::vector<std::string> startup = {}) {
    std::vector<std::unique_ptr<ModelBackend>> backends;
    backends.push_back(std::make_unique<FakeBackend>(gate_));
    auto loader = std::make_shared<BackendLoader>(std::move(backends), 100, make_silent_log());
    return std::make_unique<ModelRepository>(
        RepositoryOptions{{folder_.path()}, mode, std::move(startup), 4, {}}, loader,
        make_silent_log());
  }

  // "name:version:state", and the reason where there is one.
  static std::vector<std::string> index(const ModelRepository& repository,
                                        bool only_ready = false) {
    const auto entries = repository.index(only_ready);
    EXPECT_TRUE(entries.ok()) << entries.status().message();
    std::vector<std::string> lines;
    for (const IndexEntry& entry : *entries) {
      lines.push_back(str_cat(entry.name, ":", entry.version, ":", entry.state,
                              entry.reason.empty() ? "" : " ", entry.reason));
    }
    return lines;
  }

  static Status infer(LoadedModel& model) {
    const std::string data(16, '\0');
    InferRequest request;
    request.inputs = {{"x", DType::kFloat32, {1, 4}, test::as_span(data)}};
    std::promise<Status> answer;
    InferDone done = [&](Result<InferResponse> r) { answer.set_value(r.status()); };
    EXPECT_TRUE(model.infer(request, std::make_shared<test::VectorSink>(),
                            std::chrono::steady_clock::now(), done));
    return answer.get_future().get();
  }

  TempFolder folder_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

TEST_F(RepositoryTest, NoneModeLoadsEverythingAndForbidsControl) {
  folder_.write("a/1/model.plan", "identity");
  folder_.write("b/2/model.plan", "identity");
  folder_.write("b/7/model.plan", "identity");
  const auto repository = make(ControlMode::kNone);
  const Status status = repository->start();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(index(*repository), ElementsAre("a:1:READY", "b:7:READY"));
  EXPECT_TRUE(repository->is_all_ready());
  EXPECT_EQ(repository->load("a").code(), StatusCode::kUnavailable);
  EXPECT_THAT(repository->unload("a").message(),
              HasSubstr("explicit model load / unload is not allowed"));
}

TEST_F(RepositoryTest, ModelThatFailsKeepsTheOthersFromNothing) {
  folder_.write("bad/1/model.plan", "garbage");
  folder_.write("empty/config.pbtxt", "");
  folder_.write("good/1/model.plan", "identity");
  folder_.write("typo/1/model.plan", "identity");
  folder_.write("typo/config.pbtxt", "max_batchsize: 1");
  const auto repository = make(ControlMode::kNone);
  const Status status = repository->start();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("failed to load 'bad': version 1: file says 'garbage'"));
  EXPECT_THAT(status.message(), HasSubstr("failed to load 'empty': there is no version folder"));
  EXPECT_THAT(status.message(), HasSubstr("config.pbtxt:1:"));
  EXPECT_THAT(index(*repository),
              ElementsAre("bad:1:UNAVAILABLE version 1: file says 'garbage'",
                          HasSubstr("empty::UNAVAILABLE there is no version folder"),
                          "good:1:READY", HasSubstr("typo::UNAVAILABLE")));
  EXPECT_THAT(index(*repository, true), ElementsAre("good:1:READY"));
  EXPECT_FALSE(repository->is_all_ready());
  EXPECT_TRUE(repository->find("good", "").ok());
  EXPECT_EQ(repository->find("bad", "").status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(repository->find("empty", "").status().message(),
              HasSubstr("has no available versions"));
}

TEST_F(RepositoryTest, ExplicitModeLoadsOnRequest) {
  folder_.write("a/1/model.plan", "identity");
  folder_.write("b/1/model.plan", "identity");
  const auto repository = make(ControlMode::kExplicit, {"b"});
  ASSERT_TRUE(repository->start().ok());
  EXPECT_THAT(index(*repository), ElementsAre("a::", "b:1:READY"));
  EXPECT_EQ(repository->find("a", "").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(repository->load("a").ok());
  EXPECT_TRUE(repository->find("a", "1").ok());
  ASSERT_TRUE(repository->unload("a").ok());
  EXPECT_THAT(index(*repository), ElementsAre("a:1:UNAVAILABLE unloaded", "b:1:READY"));
  EXPECT_EQ(repository->find("a", "").status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(repository->is_all_ready());  // nobody wants a any more
  ASSERT_TRUE(repository->load("a").ok());
  EXPECT_TRUE(repository->find("a", "").ok());
  EXPECT_TRUE(repository->unload("a").ok());
  EXPECT_TRUE(repository->unload("a").ok());  // twice is no error
}

TEST_F(RepositoryTest, StarLoadsAll) {
  folder_.write("a/1/model.plan", "identity");
  folder_.write("b/1/model.plan", "identity");
  const auto repository = make(ControlMode::kExplicit, {"*"});
  ASSERT_TRUE(repository->start().ok());
  EXPECT_THAT(index(*repository, true), ElementsAre("a:1:READY", "b:1:READY"));
}

TEST_F(RepositoryTest, UnknownAndImpossibleNames) {
  const auto repository = make(ControlMode::kExplicit);
  ASSERT_TRUE(repository->start().ok());
  const Status unknown = repository->load("nope");
  EXPECT_EQ(unknown.code(), StatusCode::kInternal);
  EXPECT_THAT(unknown.message(),
              HasSubstr("failed to load 'nope': failed to poll from model repository"));
  EXPECT_EQ(repository->unload("nope").code(), StatusCode::kNotFound);
  for (const char* name : {"", "..", "../etc", "/"}) {
    EXPECT_EQ(repository->load(name).code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(repository->unload(name).code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(repository->find(name, "").status().code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(index(*repository).empty());
  EXPECT_TRUE(repository->is_all_ready());
  EXPECT_EQ(repository->find("nope", "").status().message(),
            "Request for unknown model: 'nope' is not found");
  EXPECT_EQ(repository->find("nope", "x").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(RepositoryTest, ThreeDotsAreALegalName) {
  folder_.write(".../1/model.plan", "identity");
  const auto repository = make(ControlMode::kNone);
  ASSERT_TRUE(repository->start().ok());
  EXPECT_TRUE(repository->find("...", "1").ok());
}

TEST_F(RepositoryTest, VersionsByPolicyAndByRequest) {
  folder_.write("m/config.pbtxt", "version_policy { all { } }");
  for (const char* version : {"1", "2", "03"}) {
    folder_.write(std::string("m/") + version + "/model.plan", "identity");
  }
  const auto repository = make(ControlMode::kNone);
  ASSERT_TRUE(repository->start().ok());
  EXPECT_THAT(index(*repository), ElementsAre("m:1:READY", "m:2:READY"));
  EXPECT_EQ((*repository->find("m", ""))->version(), 2);
  EXPECT_EQ((*repository->find("m", "1"))->version(), 1);
  EXPECT_EQ(repository->find("m", "3").status().message(),
            "Request for unknown model: 'm' version 3 is not found");
  EXPECT_EQ(repository->find_all("m", "")->size(), 2U);
  EXPECT_EQ(repository->find_all("", "")->size(), 2U);
  EXPECT_FALSE(repository->find_all("", "1").ok());
}

TEST_F(RepositoryTest, FailedReloadKeepsTheOldOneServing) {
  folder_.write("m/1/model.plan", "identity");
  const auto repository = make(ControlMode::kExplicit, {"m"});
  ASSERT_TRUE(repository->start().ok());
  const auto before = *repository->find("m", "");
  folder_.write("m/1/model.plan", "garbage");
  EXPECT_EQ(repository->load("m").code(), StatusCode::kInternal);
  EXPECT_EQ(*repository->find("m", ""), before);
  EXPECT_TRUE(infer(*before).ok());
  EXPECT_THAT(index(*repository),
              ElementsAre("m:1:READY serves as before a failed reload: version 1: "
                          "file says 'garbage'"));
  // A broken configuration or a folder that is gone changes nothing either.
  folder_.write("m/config.pbtxt", "name: 'other'");
  EXPECT_FALSE(repository->load("m").ok());
  folder_.remove("m");
  EXPECT_FALSE(repository->load("m").ok());
  EXPECT_EQ(*repository->find("m", ""), before);
  folder_.write("m/1/model.plan", "identity");
  ASSERT_TRUE(repository->load("m").ok());
  EXPECT_NE(*repository->find("m", ""), before);
  EXPECT_THAT(index(*repository), ElementsAre("m:1:READY"));
}

TEST_F(RepositoryTest, ReloadTakesUpNewVersionsAndDropsOldOnes) {
  folder_.write("m/1/model.plan", "identity");
  const auto repository = make(ControlMode::kExplicit, {"m"});
  ASSERT_TRUE(repository->start().ok());
  folder_.write("m/2/model.plan", "identity");
  ASSERT_TRUE(repository->load("m").ok());
  EXPECT_THAT(index(*repository), ElementsAre("m:1:UNAVAILABLE unloaded", "m:2:READY"));
  EXPECT_EQ((*repository->find("m", ""))->version(), 2);
}

TEST_F(RepositoryTest, UnloadWaitsForWhatRuns) {
  folder_.write("m/1/model.plan", "gated");
  const auto repository = make(ControlMode::kExplicit, {"m"});
  ASSERT_TRUE(repository->start().ok());
  auto model = *repository->find("m", "");
  auto answer = std::async(std::launch::async, [&] { return infer(*model); });
  gate_->await_arrivals(1);
  auto unloaded = std::async(std::launch::async, [&] { return repository->unload("m"); });
  while (repository->find("m", "").ok()) std::this_thread::yield();
  EXPECT_THAT(index(*repository), ElementsAre("m:1:UNLOADING"));
  gate_->open();
  EXPECT_TRUE(answer.get().ok());
  EXPECT_TRUE(unloaded.get().ok());
  EXPECT_THAT(index(*repository), ElementsAre("m:1:UNAVAILABLE unloaded"));
}

TEST_F(RepositoryTest, NoRequestFailsDuringReloads) {
  folder_.write("m/1/model.plan", "identity");
  std::shared_ptr<ModelRepository> repository = make(ControlMode::kExplicit, {"m"});
  ASSERT_TRUE(repository->start().ok());
  InferenceService service(repository, {});
  std::atomic<bool> is_over{false};
  std::atomic<int> answered{0}, failed{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      const std::string data(16, '\0');
      while (!is_over) {
        InferRequest request;
        request.model_name = "m";
        request.inputs = {{"x", DType::kFloat32, {1, 4}, test::as_span(data)}};
        std::promise<Status> answer;
        service.infer(std::move(request), std::make_shared<test::VectorSink>(),
                      [&](Result<InferResponse> r) { answer.set_value(r.status()); });
        if (!answer.get_future().get().ok()) ++failed;
        ++answered;
      }
    });
  }
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(repository->load("m").ok());
  while (answered < 100) std::this_thread::yield();
  is_over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed, 0);
}

TEST_F(RepositoryTest, PollingFollowsWhatChangesOnDisk) {
  folder_.write("a/1/model.plan", "identity");
  const auto repository = make(ControlMode::kPoll);
  ASSERT_TRUE(repository->start().ok());
  const auto first = *repository->find("a", "");
  repository->poll();
  EXPECT_EQ(*repository->find("a", ""), first);  // nothing changed, nothing was loaded
  folder_.write("b/1/model.plan", "identity");
  folder_.write("a/2/model.plan", "identity");
  repository->poll();
  EXPECT_THAT(index(*repository),
              ElementsAre("a:1:UNAVAILABLE unloaded", "a:2:READY", "b:1:READY"));
  folder_.write("a/2/model.plan", "string");
  repository->poll();
  EXPECT_EQ((*repository->find("a", ""))->signature().inputs[0].dtype, DType::kString);
  folder_.remove("b");
  repository->poll();
  EXPECT_FALSE(repository->find("b", "").ok());
  EXPECT_TRUE(repository->is_all_ready());
  EXPECT_THAT(repository->load("a").message(), HasSubstr("--model-control-mode=poll"));
}

TEST_F(RepositoryTest, PollingTriesAFailedLoadAgainOnlyWhenItsFolderChanges) {
  folder_.write("m/1/model.plan", "identity");
  const auto repository = make(ControlMode::kPoll);
  ASSERT_TRUE(repository->start().ok());
  const auto first = *repository->find("m", "");
  folder_.write("m/1/model.plan", "garbage!");
  repository->poll();
  EXPECT_EQ(*repository->find("m", ""), first);
  EXPECT_THAT(index(*repository), ElementsAre(HasSubstr("m:1:READY serves as before")));
  repository->poll();
  EXPECT_EQ(*repository->find("m", ""), first);
  folder_.write("m/1/model.plan", "identity again");
  repository->poll();
  EXPECT_EQ(*repository->find("m", ""), first);  // no such kind: garbage too
  folder_.write("m/1/model.plan", "identity");
  repository->poll();
  EXPECT_NE(*repository->find("m", ""), first);
  EXPECT_THAT(index(*repository), ElementsAre("m:1:READY"));
}

TEST_F(RepositoryTest, ModelsLoadAtTheSameTime) {
  constexpr int kModels = 3;
  for (int i = 0; i < kModels; ++i) {
    folder_.write(str_cat("m", i, "/1/model.plan"), "slow to load");
  }
  const auto repository = make(ControlMode::kNone);  // with four threads
  auto started = std::async(std::launch::async, [&] { return repository->start(); });
  gate_->await_arrivals(kModels);  // would hang if one waited for another
  EXPECT_THAT(index(*repository), ElementsAre("m0:1:LOADING", "m1:1:LOADING", "m2:1:LOADING"));
  gate_->open();
  EXPECT_TRUE(started.get().ok());
  EXPECT_TRUE(repository->is_all_ready());
}

TEST_F(RepositoryTest, PlanOfOtherSizeThanItsDeviceListIsRefusedAtLoad) {
  folder_.write("m/1/model.plan", "ranks 4");
  folder_.write("m/config.pbtxt",
                "instance_group [ { kind: KIND_MODEL count: 1 } ]\n"
                "parameters { key: 'enable_multi_device' value: { string_value: 'true' } }\n"
                "parameters { key: 'multi_device_gpus' value: { string_value: '0,1' } }\n");
  const auto repository = make(ControlMode::kNone);
  const Status status = repository->start();
  EXPECT_THAT(status.message(),
              HasSubstr("config.pbtxt:3: parameters[\"multi_device_gpus\"]: names "
                        "2 devices, but the plan was compiled for 4 ranks"));
}

TEST_F(RepositoryTest, ShutdownAnswersNothingMore) {
  folder_.write("m/1/model.plan", "identity");
  const auto repository = make(ControlMode::kExplicit, {"m"});
  ASSERT_TRUE(repository->start().ok());
  repository->shutdown(std::nullopt);
  EXPECT_FALSE(repository->find("m", "").ok());
  EXPECT_FALSE(repository->load("m").ok());
  EXPECT_FALSE(repository->is_all_ready());
}

}  // namespace
}  // namespace tutti::server
