#pragma once

#include <string>
#include <vector>

#include "cli/plot_inputs.h"
#include "cli/plot_output.h"

// The kinds of pictures that `rapt plot` draws: each reads its input, then writes --out or draws in the terminal.
namespace rapt::cli {

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
  bool json = false;
};

struct MapsArguments {
  Output output;
  std::string run;
  std::string image;
  std::string pixel;
};

void plot_heat_map(const HeatMapArguments& arguments);
void plot_alignment(const AlignmentArguments& arguments);
void plot_curves(const CurvesArguments& arguments);
void plot_bars(const TableArguments& arguments);
void plot_scaling(const TableArguments& arguments);
// In plot_images.cc, for runs on images.
void plot_centers(const CentersArguments& arguments);
void plot_maps(const MapsArguments& arguments);

}  // namespace rapt::cli
