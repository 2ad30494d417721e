#include <memory>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/plot_kinds.h"
#include "cli/plot_scenes.h"
#include "cli/verbs.h"

namespace rapt::cli {
namespace {

constexpr const char* kPlotFooter =
    "rapt plot KIND --help explains a kind. Without --out the picture is shown in the terminal. See\n"
    "docs/pictures.md.\n"
    "\n"
    "Examples:\n"
    "  rapt plot heatmap result/weights.npy --head 0,3 --out head.svg\n"
    "  rapt plot curves run/metrics.jsonl --y loss,accuracy --out curves.png\n"
    "  rapt plot curves run --out - --format svg | gzip > curves.svgz\n"
    "  rapt plot curves runs/dot runs/additive --y valid_loss --width 8.5cm --font-size 8 \\\n"
    "    --no-title --out loss.pdf\n";

// Adds the options of one kind; `arguments` must outlive the callback.
template <class Arguments>
struct Kind {
  CLI::App* app;
  std::shared_ptr<Arguments> arguments = std::make_shared<Arguments>();

  Kind(CLI::App& verb, const char* name, const char* help, const char* footer, void (*plot)(const Arguments&))
      : app(verb.add_subcommand(name, help)) {
    app->footer(footer);
    app->callback([plot, held = arguments] { plot(*held); });
  }

  CLI::Option* option(const char* name, std::string& target, const char* help, const char* takes) {
    return app->add_option(name, target, help)->type_name(takes)->check(value_given());
  }

  template <class Target>
  CLI::Option* positional(const char* name, Target& target, const char* help) {
    return app->add_option(name, target, help)->type_name("")->check(value_given());
  }

  void add_output() {
    Output& output = arguments->output;
    option("--out", output.out, "The picture; -: standard output; without it the terminal shows it",
           "FILE.svg|FILE.png|FILE.pdf");
    option("--format", output.format, "Format where the name of --out has no extension, as with - or /dev/stdout",
           "svg|png|pdf");
    option("--title", output.title, "Title above the picture", "TEXT");
    app->add_flag("--no-title", output.no_title, "No title, for a figure that has a caption");
    option("--width", output.width, "Width of the whole figure, as in 8.5cm or 3.3in [fits the content]", "LENGTH");
    option("--font-size", output.font_size, "Size of labels in points; ticks are slightly smaller [9]", "PT");
    option("--theme", output.theme, "auto: an SVG that follows the reader's system [light]", "light|dark|auto");
    option("--scale", output.scale, "Pixels of a PNG per 1/96 inch [2, that is 192 dpi]", "X");
  }

  void add_axes(const char* x, const char* y) {
    option("--xlabel", arguments->output.xlabel, x, "TEXT");
    option("--ylabel", arguments->output.ylabel, y, "TEXT");
  }

  void add_labels(const char* words, const char* file, LabelArguments& labels, const char* help) {
    option(words, labels.words, help, "\"TOK TOK ...\"");
    option(file, labels.file, "The same, one on each line of a file", "FILE");
  }
};

void add_heat_map(CLI::App& verb) {
  Kind<HeatMapArguments> kind(
      verb, "heatmap", "An array as a map of colours, or a grid of them",
      "The array is [R,C], [H,R,C] or [B,H,R,C]; several heads make a grid. Numbers below 0 are blue and\n"
      "those above it orange where there are both. Above 1280 rows or columns each cell is the largest of a\n"
      "block, or the farthest from 0.\n"
      "\n"
      "Example:\n"
      "  rapt plot heatmap weights.npy --head 0,1 --rows \"I saw a cat\" --cols \"I saw a cat\" \\\n"
      "    --values --out map.svg",
      plot_heat_map);
  HeatMapArguments& a = *kind.arguments;
  kind.positional("A.npy", a.file, "The array")->required();
  kind.add_output();
  kind.add_axes("What the columns are", "What the rows are");
  kind.add_labels("--rows", "--row-labels", a.rows, "Labels of the rows");
  kind.add_labels("--cols", "--col-labels", a.cols, "Labels of the columns");
  kind.option("--head", a.head, "One map, counted from 0", "B,H|H");
  kind.option("--range", a.range,
              "The numbers at the ends of the colours [0 or the smallest below it, and the largest]", "LOW,HIGH");
  kind.app->add_flag("--values", a.values, "Write the numbers into the cells, up to 40 x 40");
}

void add_curves(CLI::App& verb) {
  Kind<CurvesArguments> kind(
      verb, "curves", "Lines over steps: losses, accuracies",
      "A file has a JSON object on each line, or is a run's directory with metrics.jsonl, or an\n"
      "array [N] or [N,S] of S series. null and NaN leave a gap. Lines of several files are named\n"
      "after them.\n"
      "\n"
      "Examples:\n"
      "  rapt plot curves run/metrics.jsonl --x step --y loss,valid_loss --log --out loss.svg\n"
      "  rapt plot curves runs/dot runs/additive --y valid_loss --width 8.5cm --no-title \\\n"
      "    --out loss.pdf",
      plot_curves);
  CurvesArguments& a = *kind.arguments;
  kind.positional("METRICS.jsonl|RUN|A.npy", a.curves.files, "Metrics, runs, or arrays")->required();
  kind.add_output();
  kind.add_axes("Name of the x axis [the field]", "Name of the y axis [the field, where there is one]");
  kind.option("--x", a.curves.x, "Field along the axis [step, else epoch, else the line]", "NAME");
  kind.option("--y", a.curves.y, "Fields to draw [the losses, else all]; for an array their names", "NAME,...");
  kind.app->add_flag("--log", a.curves.log, "Logarithmic y axis");
  kind.app->add_flag("--log-x", a.curves.log_x, "Logarithmic x axis");
}

void add_alignment(CLI::App& verb) {
  Kind<AlignmentArguments> kind(
      verb, "alignment", "Source and target tokens joined by lines",
      "The array is [target, source], or has heads before that. Darker lines are larger weights.\n"
      "\n"
      "Example:\n"
      "  rapt plot alignment w.npy --source \"the cat\" --target \"le chat\" --out alignment.svg",
      plot_alignment);
  AlignmentArguments& a = *kind.arguments;
  kind.positional("W.npy", a.file, "The weights")->required();
  kind.add_output();
  kind.add_labels("--source", "--source-labels", a.source, "The source tokens [numbers]");
  kind.add_labels("--target", "--target-labels", a.target, "The target tokens [numbers]");
  kind.option("--head", a.head, "One map, counted from 0", "B,H|H");
}

void add_bars(CLI::App& verb) {
  Kind<TableArguments> kind(
      verb, "bars", "Bars in groups, with their numbers",
      "The file: {\"groups\": [\"a\", \"b\"], \"series\": [{\"name\": \"x\", \"values\": [1, 2]}]},\n"
      "optionally with \"title\" and \"value\" (the axis); or what rapt bench --json prints.\n"
      "\n"
      "Example:\n"
      "  rapt bench --quick --json > bench.json && rapt plot bars bench.json --y fraction --out bars.svg",
      plot_bars);
  TableArguments& a = *kind.arguments;
  kind.positional("FILE.json", a.file, "The numbers")->required();
  kind.add_output();
  kind.add_axes("Name of the axis of numbers [of the file]", "What the groups are");
  kind.option("--y", a.field, "Of a benchmark: the number to show [seconds]", "NAME");
}

void add_scaling(CLI::App& verb) {
  Kind<TableArguments> kind(
      verb, "scaling", "How cost grows with size, both axes logarithmic",
      "The file: {\"series\": [{\"name\": \"n\", \"x\": [1, 2], \"y\": [1, 4]}]}, optionally with \"title\",\n"
      "\"x\" and \"y\" (the axes) and \"slopes\" (of the guides); or what rapt bench growth --json prints.\n"
      "\n"
      "Example:\n"
      "  rapt plot scaling growth.json --title \"Time over length\" --out scaling.svg",
      plot_scaling);
  TableArguments& a = *kind.arguments;
  kind.positional("FILE.json", a.file, "The numbers")->required();
  kind.add_output();
  kind.add_axes("Name of the x axis [of the file]", "Name of the y axis [of the file]");
  kind.option("--y", a.field, "Of a benchmark: the number to show [seconds]", "NAME");
}

void add_centers(CLI::App& verb) {
  Kind<CentersArguments> kind(
      verb, "centers", "Where heads look, seen from the query pixel",
      "Centres are [L,H,2] or [E,L,H,2] (epochs, layers, heads; rows down, columns right),\n"
      "covariances [L,H,2,2] or [E,L,H,2,2]. A run on images has both for every epoch; --json prints\n"
      "what they did: distance from the query and spread for each layer and epoch, and how near\n"
      "the heads came to the pixels of a K x K kernel.\n"
      "\n"
      "Examples:\n"
      "  rapt plot centers runs/digits --out centers.svg\n"
      "  rapt plot centers runs/digits --json\n"
      "  rapt plot centers centers.npy covariances.npy --out centers.svg",
      plot_centers);
  CentersArguments& a = *kind.arguments;
  kind.positional("RUN|C.npy", a.files, "A run on images; or centres, and covariances if there are any")->required();
  kind.add_output();
  kind.add_axes("Name of the x axis", "Name of the y axis");
  kind.app->add_flag("--json", a.json, "Of a run: print how the centres moved, as JSON");
}

void add_maps(CLI::App& verb) {
  Kind<MapsArguments> kind(
      verb, "maps", "Where each head of an image model looks from one pixel",
      "IMAGE is the number of a test image of the run, or a .png or .npy file of the model's size.\n"
      "Rows of maps are layers, columns are heads; one cell is one patch.\n"
      "\n"
      "Examples:\n"
      "  rapt plot maps runs/digits 17 --out maps.svg\n"
      "  rapt plot maps runs/digits seven.png --pixel 2,5 --out maps.png",
      plot_maps);
  MapsArguments& a = *kind.arguments;
  kind.positional("RUN", a.run, "The directory of a run on images")->required();
  kind.positional("IMAGE", a.image, "Which image")->required();
  kind.add_output();
  kind.add_axes("What the columns are", "What the rows are");
  kind.option("--pixel", a.pixel, "The query [the middle of the image]", "ROW,COLUMN");
}

void add_scenes(CLI::App& verb) {
  Kind<ScenesArguments> kind(
      verb, "scenes", "A run's predictions for scenes, beside the ground truth",
      "N are scenes of the run's test data, counted from 0. For each: the picture, the ground truth and the\n"
      "prediction, task by task. Depth: near is light. Normals: red is right, green is up, blue faces the\n"
      "camera.\n"
      "\n"
      "Example:\n"
      "  rapt plot scenes runs/scenes 0 1 2 --out scenes.png",
      plot_scenes);
  ScenesArguments& a = *kind.arguments;
  kind.positional("RUN", a.run, "The directory of a run on scenes")->required();
  kind.positional("N", a.scenes, "Scenes of the test data [0]");
  kind.add_output();
}

}  // namespace

void add_plot(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("plot", "Pictures of arrays, runs and measurements, as SVG, PNG or PDF");
  verb->require_subcommand(0, 1);
  verb->formatter(help_formatter());
  verb->get_formatter()->label("SUBCOMMAND", "KIND");
  add_heat_map(*verb);
  add_curves(*verb);
  add_alignment(*verb);
  add_bars(*verb);
  add_scaling(*verb);
  add_centers(*verb);
  add_maps(*verb);
  add_scenes(*verb);
  std::string names;
  for (CLI::App* kind : verb->get_subcommands([](CLI::App*) { return true; })) {
    kind->group("Kinds");
    names += (names.empty() ? "" : ", ") + kind->get_name();
  }
  verb->footer(kPlotFooter);
  // CLI11 would only say that something is missing; list the choices.
  verb->callback([verb, names] {
    if (verb->get_subcommands().empty()) throw Error("plot: expected a kind of plot (" + names + "), got none");
  });
}

}  // namespace rapt::cli
