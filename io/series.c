/* PATH.xdmf: the list of saved fields for readers of XDMF 3, with their times. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "atomic_file.h"
#include "io_internal.h"

static void print_escaped(FILE *to, const char *text) {
  for (; *text; text++) switch (*text) {
    case '&':
      fputs("&amp;", to);
      break;
    case '<':
      fputs("&lt;", to);
      break;
    case '>':
      fputs("&gt;", to);
      break;
    case '"':
      fputs("&quot;", to);
      break;
    default:
      fputc(*text, to);
    }
}

static void print_triple(FILE *to, const char *indent, const double xyz[3]) {
  fprintf(to,
          "%s<DataItem Format=\"XML\" NumberType=\"Float\" Precision=\"8\" Dimensions=\"3\">%.17g %.17g "
          "%.17g</DataItem>\n",
          indent, xyz[2], xyz[1], xyz[0]); /* XDMF, too, counts z first */
}

static void print_grid(FILE *to, const char *base, const series_entry *entry, const slab *s,
                       const field_meta *m) {
  char shape[64];
  snprintf(shape, sizeof shape, "%d %d %d", s->nz_global, s->ny, s->nx);
  fprintf(to, "      <Grid Name=\"step %" PRId64 "\" GridType=\"Uniform\">\n", entry->step);
  fprintf(to, "        <Time Value=\"%.17g\"/>\n", entry->time);
  fprintf(to, "        <Topology TopologyType=\"3DCoRectMesh\" Dimensions=\"%s\"/>\n", shape);
  fprintf(to, "        <Geometry GeometryType=\"ORIGIN_DXDYDZ\">\n");
  print_triple(to, "          ", m->origin);
  print_triple(to, "          ", m->spacing);
  fprintf(to,
          "        </Geometry>\n        <Attribute Name=\"u\" AttributeType=\"Scalar\" Center=\"Node\">\n");
  fprintf(to, "          <DataItem Format=\"HDF\" NumberType=\"Float\" Precision=\"4\" Dimensions=\"%s\">",
          shape);
  print_escaped(to, base);
  fprintf(to, ".%08" PRId64 ".hdf:/u</DataItem>\n        </Attribute>\n      </Grid>\n", entry->step);
}

/* Returns 0 or an errno. */
static int print_series(const char *file, const char *base, const series_entry *entries, int count,
                        const slab *s, const field_meta *m) {
  FILE *to = fopen(file, "w");
  if (!to) return errno;
  fprintf(to, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Xdmf Version=\"3.0\">\n  <Domain>\n");
  fprintf(to, "    <Grid Name=\"series\" GridType=\"Collection\" CollectionType=\"Temporal\">\n");
  for (int i = 0; i < count; i++) print_grid(to, base, &entries[i], s, m);
  fprintf(to, "    </Grid>\n  </Domain>\n</Xdmf>\n");
  int rc = fflush(to) ? errno : ferror(to) ? EIO : 0;
  if (fclose(to) && !rc) rc = errno;
  return rc;
}

int series_write(const char *path, const series_entry *entries, int count, const slab *s,
                 const field_meta *meta, error *e) {
  char file[FILE_NAME], temporary[FILE_NAME + TEMPORARY_ENDING];
  const char *slash = strrchr(path, '/');
  int n = snprintf(file, sizeof file, "%s.xdmf", path);
  if (n >= FILE_NAME) return FAIL(e, FILE_WRITE, path, strerror(ENAMETOOLONG));
  temporary_name(temporary, sizeof temporary, file);
  int rc = print_series(temporary, slash ? slash + 1 : path, entries, count, s, meta);
  if (rc) {
    remove(temporary);
    return FAIL(e, FILE_WRITE, file, strerror(rc));
  }
  return atomic_file_commit(temporary, file, e);
}
