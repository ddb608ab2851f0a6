#include "cli/shape_profile.h"

#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>

#include "runtime/shape_binding.h"

namespace tutti::cli {
namespace {

// The pieces of a list that is written with commas, over all uses of an option.
std::vector<std::string> pieces_of(const std::vector<std::string>& texts) {
  std::vector<std::string> pieces;
  for (const std::string& text : texts) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      pieces.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return pieces;
}

// "1:2:8" or "1x16x8" as numbers; nullopt when one is no whole number of at least 0.
std::optional<Dims> parse_numbers(std::string_view text, char separator) {
  Dims numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data() + begin, text.data() + end, number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end || number < 0) {
      return std::nullopt;
    }
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

std::vector<std::string> symbols_of(const std::vector<PlanTensor>& inputs) {
  std::vector<std::string> symbols;
  for (const PlanTensor& input : inputs) {
    for (const Dim& dim : input.shape) dim.collect_symbols(&symbols);
  }
  return symbols;
}

// The values of all symbols in the shapes that one option gives.
Result<SymbolMap> bind_option(std::string_view option, const std::vector<std::string>& texts,
                              const std::vector<PlanTensor>& inputs) {
  Plan given;  // the inputs that are named, and nothing else
  std::vector<TensorDesc> shapes;
  for (const std::string& piece : pieces_of(texts)) {
    const std::size_t colon = piece.rfind(':');
    const auto dims = colon == std::string::npos
                          ? std::nullopt
                          : parse_numbers(std::string_view(piece).substr(colon + 1), 'x');
    if (!dims) {
      return invalid_argument(option, " '", piece, "': expected INPUT:SIZExSIZE, such as x:2x16x8");
    }
    const std::string name = piece.substr(0, colon);
    const auto input = std::find_if(inputs.begin(), inputs.end(),
                                    [&](const PlanTensor& tensor) { return tensor.name == name; });
    if (input == inputs.end()) {
      std::vector<std::string> names;
      for (const PlanTensor& tensor : inputs) names.push_back(tensor.name);
      return not_found(option, " '", piece, "': the model has no input '", name, "', it has ",
                       names);
    }
    given.inputs.push_back(*input);
    shapes.push_back({input->dtype, *dims});
  }
  auto bound = bind_shapes(given, std::move(shapes));
  if (!bound.ok()) return bound.status().with_context(option);
  return (*bound)->symbols;
}

Result<std::map<std::string, DimRange>> ranges_by_name(const std::vector<std::string>& texts,
                                                       const std::vector<std::string>& symbols) {
  std::map<std::string, DimRange> ranges;
  for (const std::string& piece : pieces_of(texts)) {
    const std::size_t equals = piece.find('=');
    const auto numbers = equals == std::string::npos || equals == 0
                             ? std::nullopt
                             : parse_numbers(std::string_view(piece).substr(equals + 1), ':');
    if (!numbers || numbers->size() != 3) {
      return invalid_argument("--profile '", piece,
                              "': expected NAME=MIN:OPT:MAX, such as batch=1:2:8");
    }
    const std::string name = piece.substr(0, equals);
    if (std::find(symbols.begin(), symbols.end(), name) == symbols.end()) {
      return not_found("--profile '", piece, "': no input has a size '", name, "'; the sizes are ",
                       symbols);
    }
    const DimRange range{(*numbers)[0], (*numbers)[1], (*numbers)[2]};
    if (!ranges.emplace(name, range).second) {
      return invalid_argument("--profile '", piece, "': '", name, "' has a range already");
    }
  }
  return ranges;
}

DimRange completed(const std::string& symbol, const SymbolMap& min, const SymbolMap& opt,
                   const SymbolMap& max) {
  const auto in = [&](const SymbolMap& sizes) -> std::optional<std::int64_t> {
    const auto it = sizes.find(symbol);
    return it == sizes.end() ? std::nullopt : std::optional(it->second);
  };
  DimRange range;
  range.opt = in(opt) ? *in(opt) : in(max) ? *in(max) : *in(min);
  range.min = in(min).value_or(range.opt);
  range.max = in(max).value_or(range.opt);
  return range;
}

}  // namespace

void add_profile_options(CLI::App& command, ProfileOptions* options) {
  command.add_option("--profile", options->ranges,
                     "NAME=MIN:OPT:MAX[,...]: the range of a symbolic size, and where to be best");
  const auto add_shapes = [&](const char* names, std::vector<std::string>* texts,
                              const char* what) {
    command.add_option(names, *texts,
                       std::string("INPUT:2x16x8[,...]: the ") + what + " sizes of inputs");
  };
  add_shapes("--min-shapes,--minShapes", &options->min_shapes, "smallest");
  add_shapes("--opt-shapes,--optShapes", &options->opt_shapes, "most important");
  add_shapes("--max-shapes,--maxShapes", &options->max_shapes, "largest");
}

Result<std::map<std::string, DimRange>> shape_profile(const ProfileOptions& options,
                                                      const std::vector<PlanTensor>& inputs) {
  TUTTI_ASSIGN_OR_RETURN(auto ranges, ranges_by_name(options.ranges, symbols_of(inputs)));
  TUTTI_ASSIGN_OR_RETURN(const SymbolMap min,
                         bind_option("--min-shapes", options.min_shapes, inputs));
  TUTTI_ASSIGN_OR_RETURN(const SymbolMap opt,
                         bind_option("--opt-shapes", options.opt_shapes, inputs));
  TUTTI_ASSIGN_OR_RETURN(const SymbolMap max,
                         bind_option("--max-shapes", options.max_shapes, inputs));
  SymbolMap named = min;
  named.insert(opt.begin(), opt.end());
  named.insert(max.begin(), max.end());
  for (const auto& [symbol, size] : named) {
    if (!ranges.emplace(symbol, completed(symbol, min, opt, max)).second) {
      return invalid_argument("size '", symbol, "' has a range by --profile and one by shapes");
    }
  }
  for (const auto& [symbol, range] : ranges) {
    if (range.min <= range.opt && range.opt <= range.max) continue;
    return invalid_argument("the range of '", symbol, "' is ", range.min, " to ", range.max,
                            ", best at ", range.opt, "; expected min <= opt <= max");
  }
  return ranges;
}

}  // namespace tutti::cli
