#include "comm/mesh_communicators.h"

namespace tutti {
namespace {

class LocalMesh final : public MeshCommunicators {
 public:
  LocalMesh(const Mesh& mesh, const LocalCommunicatorOptions& options)
      : by_rank_(static_cast<std::size_t>(mesh.num_ranks())),
        of_all_(static_cast<std::size_t>(mesh.num_ranks())) {
    for (auto& axes : by_rank_) axes.resize(mesh.axes().size());
    for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) {
      if (mesh.size(axis) == 1) continue;
      for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
        if (mesh.coordinate(rank, axis) == 0) add_group(mesh.peers(rank, axis), axis, options);
      }
    }
    if (mesh.num_ranks() == 1) return;
    groups_.push_back(make_local_group(mesh.num_ranks(), options));
    for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
      of_all_[static_cast<std::size_t>(rank)] = local_communicator(groups_.back(), rank);
    }
    firsts_.push_back(of_all_.front());
  }

  std::vector<std::shared_ptr<Communicator>> of_rank(int rank) const override {
    return by_rank_[static_cast<std::size_t>(rank)];
  }

  std::shared_ptr<Communicator> group_of_rank(int rank) const override {
    return of_all_[static_cast<std::size_t>(rank)];
  }

  void abort(const Status& reason) override {
    for (const auto& first : firsts_) first->abort(reason);
  }

  Status renew() override {
    for (const auto& group : groups_) tutti::renew(*group);
    return {};
  }

 private:
  void add_group(const std::vector<int>& ranks, int axis, const LocalCommunicatorOptions& options) {
    groups_.push_back(make_local_group(static_cast<int>(ranks.size()), options));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      auto communicator = local_communicator(groups_.back(), static_cast<int>(i));
      if (i == 0) firsts_.push_back(communicator);
      by_rank_[static_cast<std::size_t>(ranks[i])][static_cast<std::size_t>(axis)] =
          std::move(communicator);
    }
  }

  std::vector<std::vector<std::shared_ptr<Communicator>>> by_rank_;
  std::vector<std::shared_ptr<Communicator>> of_all_;
  std::vector<std::shared_ptr<LocalGroup>> groups_;
  std::vector<std::shared_ptr<Communicator>> firsts_;  // one a group
};

}  // namespace

std::unique_ptr<MeshCommunicators> make_local_mesh(const Mesh& mesh,
                                                   const LocalCommunicatorOptions& options) {
  return std::make_unique<LocalMesh>(mesh, options);
}

std::vector<std::vector<std::shared_ptr<Communicator>>> make_mesh_communicators(
    const Mesh& mesh, const LocalCommunicatorOptions& options) {
  const LocalMesh communicators(mesh, options);
  std::vector<std::vector<std::shared_ptr<Communicator>>> by_rank;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    by_rank.push_back(communicators.of_rank(rank));
  }
  return by_rank;
}

}  // namespace tutti
