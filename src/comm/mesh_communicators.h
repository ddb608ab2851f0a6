// The communicators of a whole mesh: for each rank and axis, the group of ranks along that axis.
#pragma once

#include <memory>
#include <vector>

#include "comm/local.h"
#include "graph/mesh.h"

namespace tutti {

class MeshCommunicators {
 public:
  virtual ~MeshCommunicators() = default;

  // By mesh axis; null for axes of size 1.
  virtual std::vector<std::shared_ptr<Communicator>> of_rank(int rank) const = 0;

  // Of all ranks of the mesh; null for one.
  virtual std::shared_ptr<Communicator> group_of_rank(int rank) const = 0;

  // Aborts all groups; the first reason counts. From any thread, any number of times.
  virtual void abort(const Status& reason) = 0;

  // Makes all groups usable after an abort. No rank may be inside a call.
  virtual Status renew() = 0;
};

// Ranks that are threads of this process.
std::unique_ptr<MeshCommunicators> make_local_mesh(const Mesh& mesh,
                                                   const LocalCommunicatorOptions& options = {});

// [rank][axis], for those who need no renewal.
std::vector<std::vector<std::shared_ptr<Communicator>>> make_mesh_communicators(
    const Mesh& mesh, const LocalCommunicatorOptions& options = {});

}  // namespace tutti
