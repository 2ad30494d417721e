// Experiments of Assignment 6 and MulT at the documents' own sizes, which take a GPU or hours; shown as they were stored.
#include "reproduce/part_list.h"
#include "reproduce/resources.h"
#include "reproduce/stored.h"

namespace rapt::reproduce {

Section run_experiments(const Context&) {
  Section section{"Experiments at full size", "Assignment 6, Q2; MulT, 5"};
  section.say(
      "Not computed by this run: results of longer experiments, stored with the date, the machine and the commands "
      "that gave them. The files of data/experiments hold every number that was measured.");
  if (experiment_files().empty()) section.say("This build carries none.");
  for (const EmbeddedFile& file : experiment_files()) add_stored(parse_stored(file.name, file.text), section);
  return section;
}

}  // namespace rapt::reproduce
