#include "nearest.h"
#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include "numbers.h"

enum { LONGEST = 64 }; /* no name in the program is longer, so a longer one matches none */

static int nearest_lower(char c) {
  return tolower((unsigned char)c);
}

/* Optimal string alignment distance, one row of the table per letter of `a`; both at most LONGEST letters. */
static int nearest_edit_distance(const char *a, int a_length, const char *b, int b_length) {
  int row[3][LONGEST + 1]; /* rows i-2, i-1 and i of the table, cyclically */
  for (int j = 0; j <= b_length; j++) row[0][j] = j;
  for (int i = 1; i <= a_length; i++) {
    int *now = row[i % 3];
    const int *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= b_length; j++) {
      int changed = nearest_lower(a[i - 1]) != nearest_lower(b[j - 1]);
      now[j] = smaller(last[j - 1] + changed, smaller(last[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && nearest_lower(a[i - 1]) == nearest_lower(b[j - 2]) &&
          nearest_lower(a[i - 2]) == nearest_lower(b[j - 1]))
        now[j] = smaller(now[j], before[j - 2] + 1);
    }
  }
  return row[a_length % 3][b_length];
}

const char *nearest_name(const char *name, const char *const names[], int count) {
  const char *nearest = NULL;
  int nearest_distance = LONGEST + 1;
  int length = (int)strnlen(name, LONGEST + 1);
  for (int n = 0; n < count; n++) {
    const int known = names[n] ? (int)strnlen(names[n], LONGEST + 1) : 0, longer = larger(known, length);
    if (!names[n] || longer > LONGEST) continue;
    const int distance = nearest_edit_distance(name, length, names[n], known);
    /* A distance of the whole length would mean that not one letter is shared. */
    if (distance > 1 + longer / 4 || distance >= longer || distance >= nearest_distance) continue;
    nearest = names[n];
    nearest_distance = distance;
  }
  return nearest;
}
