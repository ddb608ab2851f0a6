#include "compiler/choose_mesh.h"

#include <algorithm>
#include <span>

#include "compiler/distribute.h"
#include "compiler/estimate.h"
#include "compiler/explain.h"
#include "compiler/hoist.h"
#include "compiler/memory_use.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

struct Candidate {
  Mesh mesh;
  bool split_all_weights = false;
  TimeEstimate time;
  std::vector<RankBytes> memory;

  double most_bytes() const {
    double most = 0;
    for (const RankBytes& rank : memory) most = std::max(most, rank.total());
    return most;
  }
};

// All ways to write `ranks` as a product over `names`, axes of one rank left out.
void factorize(int ranks, std::span<const std::string> names, std::vector<MeshAxis> axes,
               std::vector<std::vector<MeshAxis>>* out) {
  if (names.empty()) {
    if (ranks == 1) out->push_back(std::move(axes));
    return;
  }
  for (int size = 1; size <= ranks; ++size) {
    if (ranks % size != 0) continue;
    std::vector<MeshAxis> longer = axes;
    if (size > 1) longer.push_back({names[0], size});
    factorize(ranks / size, names.subspan(1), std::move(longer), out);
  }
}

class MeshChooser {
 public:
  MeshChooser(const Graph& whole, const std::vector<std::string>& invariant_inputs,
              const SymbolMap& sizes, const CompileOptions& options)
      : whole_(whole), invariant_inputs_(invariant_inputs), sizes_(sizes), options_(options) {}

  Result<MeshChoice> choose() {
    std::vector<std::vector<MeshAxis>> meshes;
    const std::vector<std::string> names = usual_axes();
    factorize(options_.auto_ranks, names, {}, &meshes);
    std::vector<Candidate> candidates;
    for (std::vector<MeshAxis>& axes : meshes) {
      TUTTI_ASSIGN_OR_RETURN(Mesh mesh, Mesh::create(std::move(axes)));
      TUTTI_ASSIGN_OR_RETURN(Candidate candidate, try_mesh(mesh, false));
      // Weights that are cheaper whole are cut, too, where memory asks for it.
      if (!fits(candidate)) {
        TUTTI_ASSIGN_OR_RETURN(candidate, try_mesh(mesh, true));
      }
      candidates.push_back(std::move(candidate));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](const Candidate& a, const Candidate& b) {
                       if (fits(a) != fits(b)) return fits(a);
                       return a.time.total() < b.time.total();
                     });
    if (!fits(candidates[0])) {
      const auto& closest = *std::min_element(
          candidates.begin(), candidates.end(),
          [](const Candidate& a, const Candidate& b) { return a.most_bytes() < b.most_bytes(); });
      return check_memory(closest.memory, options_.memory_limit)
          .with_context(str_cat("no mesh of ", options_.auto_ranks, " ranks fits; the closest is ",
                                closest.mesh));
    }
    return MeshChoice{candidates[0].mesh, candidates[0].split_all_weights, explain(candidates)};
  }

 private:
  bool fits(const Candidate& candidate) const {
    return check_memory(candidate.memory, options_.memory_limit).ok();
  }

  Result<Candidate> try_mesh(const Mesh& mesh, bool split_all_weights) const {
    CompileOptions options = options_;
    options.mesh = mesh;
    options.split_all_weights = split_all_weights;
    options.progress = nullptr;
    TUTTI_ASSIGN_OR_RETURN(const Distributed spmd,
                           distribute(whole_.clone(), options, invariant_inputs_));
    spmd.graph->remove_dead();
    Hoisted parts;
    if (options.hoist) {
      TUTTI_ASSIGN_OR_RETURN(parts, hoist(*spmd.graph, invariant_inputs_));
    }
    const Graph& main = options.hoist ? *parts.main : *spmd.graph;
    Candidate out;
    out.mesh = mesh;
    out.split_all_weights = split_all_weights;
    out.memory = memory_by_rank(main, parts.prologue.get(), mesh, sizes_);
    out.time = estimate_time(main, out.memory, mesh, options.rates, sizes_);
    return out;
  }

  static std::string name_of(const Mesh& mesh) {
    return mesh.num_ranks() == 1 ? std::string("one rank") : mesh.to_string();
  }

  static std::string duration(double seconds) {
    if (seconds >= 1) return human(seconds) + " s";
    return seconds >= 1e-3 ? human(seconds * 1e3) + " ms" : human(seconds * 1e6) + " us";
  }

  std::string explain(const std::vector<Candidate>& candidates) const {
    std::string out = str_cat("meshes of ", options_.auto_ranks, " ranks, by estimated time\n");
    for (const Candidate& candidate : candidates) {
      const TimeEstimate& time = candidate.time;
      out += str_cat("  ", name_of(candidate.mesh), ": ", duration(time.total()), " = compute ",
                     duration(time.compute), " + weights ", duration(time.weights), " + link ",
                     duration(time.link), " + ", time.exchanges, " exchanges ",
                     duration(time.latency), "; ", human(candidate.most_bytes()), "B a rank",
                     fits(candidate) ? "" : ", does not fit", "\n");
    }
    return out + reason(candidates) + "\n";
  }

  // The term in which the runner-up loses most.
  std::string reason(const std::vector<Candidate>& candidates) const {
    const std::string name = name_of(candidates[0].mesh);
    if (candidates.size() < 2) return str_cat("chosen: ", name, ", the only one\n");
    if (!fits(candidates[1])) return str_cat("chosen: ", name, ", the only one that fits\n");
    const TimeEstimate& won = candidates[0].time;
    const TimeEstimate& lost = candidates[1].time;
    const std::pair<std::string_view, double> terms[] = {
        {"compute", lost.compute - won.compute},
        {"reading weights", lost.weights - won.weights},
        {"bytes on the link", lost.link - won.link},
        {"exchanges", lost.latency - won.latency}};
    const auto& most =
        *std::max_element(std::begin(terms), std::end(terms),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
    return str_cat("chosen: ", name, "; ", name_of(candidates[1].mesh), " comes next, ",
                   duration(lost.total() - won.total()), " later, and loses most on ", most.first,
                   " (", duration(most.second), ")\n");
  }

  const Graph& whole_;
  const std::vector<std::string>& invariant_inputs_;
  const SymbolMap& sizes_;
  const CompileOptions& options_;
};

}  // namespace

Result<MeshChoice> choose_mesh(const Graph& whole, const std::vector<std::string>& invariant_inputs,
                               const SymbolMap& sizes, const CompileOptions& options) {
  return MeshChooser(whole, invariant_inputs, sizes, options).choose();
}

}  // namespace tutti
