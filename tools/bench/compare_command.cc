// compare: two results beside each other.
#include <memory>

#include "absl/strings/str_cat.h"
#include "tools/bench/commands.h"
#include "tools/bench/compare.h"
#include "tools/lib/text_file.h"

namespace reel::bench {
namespace {

struct CompareArguments {
  std::string before, after;
  double tolerance = 10;
  Output output;
};

absl::StatusOr<std::vector<Figure>> ReadFigures(const std::string& path) {
  const auto text = tools::ReadTextFile(path);
  if (!text.ok()) return text.status();
  const auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
  if (json.is_discarded()) return absl::InvalidArgumentError(absl::StrCat(path, ": is no JSON"));
  auto figures = FiguresIn(json);
  if (figures.ok()) return figures;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", figures.status().message()));
}

absl::StatusOr<int> Run(const CompareArguments& arguments) {
  const auto before = ReadFigures(arguments.before);
  if (!before.ok()) return before.status();
  const auto after = ReadFigures(arguments.after);
  if (!after.ok()) return after.status();
  const Comparison comparison(*before, *after, arguments.tolerance / 100);
  if (comparison.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(arguments.before, " and ", arguments.after, " have no figure in common"));
  }
  const Findings findings{.title = "reel-bench compare",
                          .text = comparison.ToText(),
                          .json = comparison.ToJson(),
                          .html = [&](HtmlReport& html) {
                            html.Facts({{"first", arguments.before}, {"second", arguments.after}});
                            comparison.ToHtml(html);
                          }};
  if (absl::Status s = Print(arguments.output, findings); !s.ok()) return s;
  return comparison.any_slower() ? kNotEnough : 0;
}

}  // namespace

Command AddCompare(CLI::App& program) {
  const auto arguments = std::make_shared<CompareArguments>();
  CLI::App* app = program.add_subcommand("compare", "two results, in JSON, as the others print it");
  app->add_option("FIRST", arguments->before, "a file with the JSON of a result")->required();
  app->add_option("SECOND", arguments->after, "another one, of the same command")->required();
  app->add_option("--tolerance", arguments->tolerance,
                  "percent that a figure may be worse before it counts as slower: exit status 3")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  arguments->output.AddTo(*app);
  return {app, [arguments] { return Run(*arguments); }};
}

}  // namespace reel::bench
