/* Prints --help and --version. */
#include <mpi.h> /* only for MPI_Get_library_version, which may be called before MPI_Init */
#include <string.h>
#include "cli.h"
#include "device/device.h"
#include "halo/halo.h"
#include "io/hdf5/field_io.h"
#include "version.h"

#define EXIT_CODES                                                                                           \
  "0 done, 1 usage or config, 2 input or output file, 3 numerical failure, 4 device or MPI failure,\n"       \
  "75 stopped early after writing a checkpoint (run again with --restart auto)"

static void cli_print_text(FILE *to) {
  fprintf(
      to,
      "usage: mpirun -np N stencil [options] config.ini [section.key=value ...]\n\n"
      "3D finite differences on many GPUs or cores. Entries of config.ini can be overridden on the command\n"
      "line; the last one wins.\n\noptions:\n");
  for (int i = 0; i < cli_option_count; i++) {
    const cli_option *o = &cli_options[i];
    char form[64], letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    const char *blank = o->argument && *o->argument == '[' ? "" : " ";
    snprintf(form, sizeof form, "%s--%s%s%s", letter, o->name, blank, o->argument ? o->argument : "");
    fprintf(to, "  %-26s%s\n", form, o->help);
  }
  config_help(to, HELP_TEXT);
  fprintf(to, "\nexit codes: " EXIT_CODES "\n");
}

static void cli_print_man(FILE *to) {
  fprintf(
      to,
      ".\\\" Printed by stencil --help=man.\n.TH STENCIL 1\n.SH NAME\n"
      "stencil \\- 3D finite differences on many GPUs or cores\n.SH SYNOPSIS\n"
      "mpirun \\-np N stencil [options] config.ini [section.key=value ...]\n.SH DESCRIPTION\n"
      "Updates a grid with a 25\\-point stencil (jacobi, heat or wave equation), partitioned along z among\n"
      "the ranks. Fields, traces and checkpoints are HDF5 files.\n.SH OPTIONS\n");
  for (int i = 0; i < cli_option_count; i++) {
    const cli_option *o = &cli_options[i];
    fprintf(to, ".TP\n");
    if (o->letter) fprintf(to, "\\fB\\-%c\\fR, ", o->letter);
    fprintf(to, "\\fB\\-\\-%s\\fR%s%s\n%s.\n", o->name, o->argument && *o->argument != '[' ? " " : "",
            o->argument ? o->argument : "", o->help);
  }
  fprintf(to, ".SH CONFIGURATION\nAn INI file; comments begin with ; or #; units are SI; FILE:/dataset names "
              "a dataset\n"
              "of an HDF5 file. On the command line section.key=value wins over the file,\n"
              "and an empty value clears the key.\n");
  config_help(to, HELP_MAN);
  fprintf(to, ".SH EXIT STATUS\n" EXIT_CODES ".\n");
}

static void cli_print_bash(FILE *to) {
  fprintf(to,
          "# Completion of stencil for bash, printed by stencil --help=bash. To use it: source this file.\n"
          "_stencil() {\n  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} "
          "key= keys options values=\n  options='");
  for (int i = 0; i < cli_option_count; i++) fprintf(to, "%s--%s", i ? " " : "", cli_options[i].name);
  fprintf(to, "'\n  # bash takes words apart at =\n"
              "  if [[ $word == = ]]; then key=$before word=; fi\n"
              "  if [[ $before == = ]]; then key=${COMP_WORDS[COMP_CWORD - 2]}; fi\n");
  config_help(to, HELP_BASH);
  fprintf(
      to,
      "  if [[ $key ]]; then COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
      "  elif [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
      "  else COMPREPLY=($(compgen -f -X '!*.ini' -- \"$word\") $(compgen -W \"$keys\" -- \"$word\"))\n  fi\n"
      "  if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
      "}\ncomplete -o default -F _stencil stencil\n");
}

void cli_help(FILE *to, enum help_form form) {
  switch (form) {
  case HELP_TEXT:
    cli_print_text(to);
    break;
  case HELP_MARKDOWN:
    config_help(to, HELP_MARKDOWN);
    break;
  case HELP_MAN:
    cli_print_man(to);
    break;
  case HELP_BASH:
    cli_print_bash(to);
    break;
  }
}

static void cli_print_libraries(FILE *to) {
  char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "unknown", cuda[64], hdf5[64];
  int length;
  MPI_Get_library_version(mpi, &length); /* a failure leaves "unknown" */
  mpi[strcspn(mpi, "\n")] = '\0';
  device_cuda_version(cuda);
  field_io_version(hdf5);
#ifdef __clang__
  fprintf(to, "C compiler: %s\n", __VERSION__);
#else
  fprintf(to, "C compiler: GCC %s\n", __VERSION__);
#endif
  fprintf(to, "CUDA toolkit: %s\nMPI: %s\nHDF5: %s\n", cuda, mpi, hdf5);
}

static void cli_print_backends(FILE *to) {
  char why[256] = "";
  int devices = device_cuda_count(why);
  fprintf(to, "backends:\n  host\n");
#ifdef STENCIL_HAVE_CUDA
  if (devices > 0)
    fprintf(to, "  cuda: %d device%s\n", devices, devices == 1 ? "" : "s");
  else
    fprintf(to, "  cuda: no usable device: %s\n", why);
#else
  (void)devices;
  fprintf(to, "  cuda: not compiled in\n");
#endif
}

void cli_version(FILE *to) {
  fprintf(to, "stencil %s (git %s)\nbuild: %s\n", STENCIL_VERSION, STENCIL_GIT_HASH, STENCIL_BUILD_TYPE);
  cli_print_libraries(to);
  cli_print_backends(to);
  fprintf(to, "transports:\n");
  for (int k = 0; k < transport_count(); k++) {
    const transport_entry *t = transport_at(k);
    char library[HALO_WHY];
    fprintf(to, "  %-12s %s", t->name, t->note);
    if (t->transport->describe) {
      t->transport->describe(library);
      fprintf(to, " [%s]", library);
    }
    fprintf(to, "\n");
  }
  fprintf(to, "kernels:\n");
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel *k = &kernel_table[i];
    const char *absent = k->host || k->cuda ? "" : " [not compiled in]";
    fprintf(to, "  %s %-14s %s", backend_name(k->backend), k->name, k->note);
    for (int q = 0; q < EQUATION_COUNT; q++)
      if (!(k->equations >> q & 1)) fprintf(to, ", not for %s", equation_name((enum equation)q));
    fprintf(to, "%s\n", absent);
  }
}
