#pragma once

#include <string>
#include <vector>

#include "cli/plot_inputs.h"

// The kinds of pictures that `rapt plot` draws: each reads its input, then writes --out or shows the terminal's view.
namespace rapt::cli {

// What every kind takes.
struct Output {
  std::string out;
  std::string title;
  std::string theme = "light";
  std::string scale = "2";
};

struct HeatMapArguments {
  Output output;
  std::string file;
  LabelArguments rows;
  LabelArguments cols;
  std::string head;
  std::string range;
  bool values = false;
};

struct AlignmentArguments {
  Output output;
  std::string file;
  LabelArguments source;
  LabelArguments target;
  std::string head;
};

struct CurvesArguments {
  Output output;
  CurveArguments curves;
};

struct TableArguments {
  Output output;
  std::string file;
  std::string field;
};

struct CentersArguments {
  Output output;
  std::vector<std::string> files;
};

void plot_heat_map(const HeatMapArguments& arguments);
void plot_alignment(const AlignmentArguments& arguments);
void plot_curves(const CurvesArguments& arguments);
void plot_bars(const TableArguments& arguments);
void plot_scaling(const TableArguments& arguments);
void plot_centers(const CentersArguments& arguments);

}  // namespace rapt::cli
