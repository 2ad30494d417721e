// Document 003, Q2: image classifiers of attention alone; where their heads look, over the epochs.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <sstream>

#include <nlohmann/json.hpp>

#include "pictures/centers.h"
#include "pictures/curves.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "reproduce/training.h"
#include "tensor/files.h"

namespace rapt::reproduce {
namespace {

constexpr std::size_t kGridHeads = 9;  // of a 3 × 3 kernel

std::vector<Job> jobs_of(const Context& context) {
  std::vector<Job> jobs{{"quadratic", "digits", {{"encoding", "quadratic"}}}, {"cnn", "digits", {{"model", "cnn"}}}};
  if (!context.quick)
    for (const char* encoding : {"gaussian", "learned_2d", "learned_2d_positions", "absolute"})
      jobs.push_back({encoding, "digits", {{"encoding", encoding}}});
  if (context.quick)
    for (Job& job : jobs) job.options["epochs"] = job.name == "cnn" ? "3" : "6";
  return jobs;
}

// Centres and spreads of all heads after each epoch, from metrics.jsonl.
pictures::HeadCenters read_centers(const Trained& run) {
  pictures::HeadCenters result;
  result.epochs = 0;
  std::istringstream lines(read_file(run.run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json epoch = nlohmann::json::parse(line);
    if (!epoch.contains("centers")) continue;
    ++result.epochs;
    const nlohmann::json& centers = epoch["centers"];
    result.layers = static_cast<std::int64_t>(centers.size());
    result.heads = static_cast<std::int64_t>(centers.at(0).size());
    for (const auto& layer : centers)
      for (const auto& head : layer)
        for (const double x : head) result.centers.push_back(x);
    for (const auto& layer : epoch["covariances"])
      for (const auto& head : layer)
        for (const auto& row : head)
          for (const double x : row) result.covariances.push_back(x);
  }
  return result;
}

struct Place {
  double down, right;
};

std::vector<Place> places_of(const pictures::HeadCenters& c, std::int64_t epoch, std::int64_t layer) {
  std::vector<Place> places;
  for (std::int64_t h = 0; h < c.heads; ++h) {
    const auto at = static_cast<std::size_t>(((epoch * c.layers + layer) * c.heads + h) * 2);
    places.push_back({c.centers[at], c.centers[at + 1]});
  }
  return places;
}

double mean_distance(const std::vector<Place>& places) {
  double sum = 0;
  for (const Place& p : places) sum += std::hypot(p.down, p.right);
  return sum / static_cast<double>(places.size());
}

// How far nine heads are from the taps of a 3 × 3 kernel, each tap taken once: the least root mean square over all
// assignments, by dynamic programming over sets of taps.
double distance_to_grid(const std::vector<Place>& places) {
  std::vector<double> best(std::size_t{1} << kGridHeads, std::numeric_limits<double>::infinity());
  best[0] = 0;
  for (std::size_t set = 0; set + 1 < best.size(); ++set) {
    const auto head = static_cast<std::size_t>(__builtin_popcountll(set));
    for (std::size_t tap = 0; tap < kGridHeads; ++tap) {
      if ((set >> tap & 1) != 0) continue;
      const double down = places[head].down - (static_cast<double>(tap / 3) - 1);
      const double right = places[head].right - (static_cast<double>(tap % 3) - 1);
      double& next = best[set | std::size_t{1} << tap];
      next = std::min(next, best[set] + down * down + right * right);
    }
  }
  return std::sqrt(best.back() / kGridHeads);
}

void add_centers(const Trained& run, Section& section) {
  pictures::HeadCenters centers = read_centers(run);
  centers.title = "Where the heads of the quadratic model look, over the epochs";
  section.show(
      "head_centers", draw(centers),
      "One panel for each layer, the query pixel at the origin: the way of each head's centre from the first epoch "
      "to the last, and the ellipses that hold half and nine tenths of its weight at the end.");
  std::vector<pictures::Series> distances;
  Table table{
      "Centres of each layer: mean distance from the query pixel, and distance to a 3 × 3 kernel's taps (root mean "
      "square of the best assignment), in steps of the grid",
      {"layer", "distance, first epoch", "last", "to a 3 × 3 grid, first", "last"},
      {}};
  std::vector<double> first_distance, last_distance, first_grid, last_grid;
  for (std::int64_t layer = 0; layer < centers.layers; ++layer) {
    pictures::Series series{"layer " + std::to_string(layer + 1), {}, {}};
    for (std::int64_t epoch = 0; epoch < centers.epochs; ++epoch) {
      series.x.push_back(static_cast<double>(epoch + 1));
      series.y.push_back(mean_distance(places_of(centers, epoch, layer)));
    }
    first_distance.push_back(series.y.front());
    last_distance.push_back(series.y.back());
    std::vector<std::string> row{std::to_string(layer + 1), fixed(series.y.front(), 2), fixed(series.y.back(), 2), "–",
                                 "–"};
    if (centers.heads == static_cast<std::int64_t>(kGridHeads)) {
      first_grid.push_back(distance_to_grid(places_of(centers, 0, layer)));
      last_grid.push_back(distance_to_grid(places_of(centers, centers.epochs - 1, layer)));
      row[3] = fixed(first_grid.back(), 2);
      row[4] = fixed(last_grid.back(), 2);
    }
    table.rows.push_back(std::move(row));
    distances.push_back(std::move(series));
  }
  section.add(std::move(table));
  section.show("center_distance",
               draw(pictures::Curves{"Mean distance of the heads from their query pixel", "epoch", "steps of the grid",
                                     distances}),
               "How far the heads of each layer look.");
  const auto mean = [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  section.claims.push_back({"003 Q2", "Heads begin near the query pixel and spread out",
                            "local at first, then they spread",
                            "mean distance " + fixed(mean(first_distance), 2) + " → " + fixed(mean(last_distance), 2),
                            "farther at the end", mean(last_distance) > mean(first_distance), Weight::informative});
  if (!first_grid.empty())
    section.claims.push_back({"003 Q2", "At the end the centres of a layer resemble a kernel's grid", "resemble a grid",
                              "distance to 3 × 3 taps " + fixed(mean(first_grid), 2) + " → " +
                                  fixed(mean(last_grid), 2) + ", the nearest layer " +
                                  fixed(*std::min_element(last_grid.begin(), last_grid.end()), 2),
                              "at most 0.5 in some layer", *std::min_element(last_grid.begin(), last_grid.end()) <= 0.5,
                              Weight::informative});
}

}  // namespace

Section run_images(const Context& context) {
  Section section{"Image models and where their heads look", "003, Q2"};
  section.say(
      "Classifiers of attention alone read 8 × 8 handwritten digits as 4 × 4 positions of 2 × 2 pixels: three "
      "layers of nine full-width heads. The published setting is CIFAR-10 with six layers and 300 epochs, which "
      "this machine would need days for; what is looked at is the same: accuracy beside a convolutional network, "
      "and what the heads' centres do.");
  const std::vector<Trained> runs = train_all(context, "images", jobs_of(context));
  Table table{"Handwritten digits", {"model", "test accuracy", "validation", "parameters", "epochs", "time"}, {}};
  Commands commands;
  for (const Trained& run : runs) {
    table.rows.push_back({run.name, percent(run.test.get("accuracy"), 2), percent(run.valid.get("accuracy"), 2),
                          grouped(run.parameters), std::to_string(run.epochs.size()), duration(run.seconds)});
    commands.lines.push_back(run.command);
  }
  section.add(std::move(table));
  section.show("images_curves",
               draw(pictures::Curves{"Digits: accuracy in validation", "epoch", "share right",
                                     validation_series(runs, "accuracy")}),
               "Validation after each epoch.");
  const double quadratic = find(runs, "quadratic").test.get("accuracy"), cnn = find(runs, "cnn").test.get("accuracy");
  section.claims.push_back(
      {"003 Q2", "Quadratic encoding does as well as a convolutional network", "93.8 % and 93.8 % on CIFAR-10",
       percent(quadratic, 2) + " and " + percent(cnn, 2) + " on digits", "within 0.5 points, or better",
       quadratic >= cnn - 0.005, context.quick ? Weight::informative : Weight::must_hold});
  section.claims.push_back({"003 Q2", "It learns the digits", "(not in the document)", percent(quadratic, 2),
                            context.quick ? "at least 85 %" : "at least 98 %",
                            quadratic >= (context.quick ? 0.85 : 0.98)});
  add_centers(find(runs, "quadratic"), section);
  commands.lines.emplace_back("rapt plot centers runs/images/quadratic --out centers.svg");
  section.add(std::move(commands));
  return section;
}

}  // namespace rapt::reproduce
