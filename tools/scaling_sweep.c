/* SPDX-License-Identifier: Apache-2.0
 * Scaling efficiency over the number of data parallel devices, everything else as it is. */
#include <math.h>
#include <string.h>

#include "scaling.h"

#define POINTS_MOST 16
#define BAR         50

struct point {
    int devices;
    double efficiency, tokens_per_s;
};

static void draw(FILE *out, const struct point *points, int n)
{
    const double left = 70, top = 60, width = 640, height = 300;
    double last = log2((double)points[n - 1].devices), first = log2((double)points[0].devices);
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"430\" viewBox=\"0 0 760 430\">\n"
        "<style>text{font-family:sans-serif;fill:#222222}.tick{font-size:12px}.title{font-size:18px}.grid{stroke:#dddddd}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
        "<text x=\"%.0f\" y=\"30\" class=\"title\">Scaling efficiency over devices</text>\n",
        left);
    for (int tenth = 0; tenth <= 10; tenth += 2) {
        double y = top + height * (1 - tenth / 10.0);
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", left, y, left + width, y);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"end\">%d %%</text>\n", left - 8, y + 4, 10 * tenth);
    }
    fprintf(out, "<polyline fill=\"none\" stroke=\"#1f6fb4\" stroke-width=\"2\" points=\"");
    for (int i = 0; i < n; i++)
        fprintf(out, "%.1f,%.1f ", left + width * (last > first ? (log2(points[i].devices) - first) / (last - first) : 0),
                top + height * (1 - points[i].efficiency));
    fprintf(out, "\"/>\n");
    for (int i = 0; i < n; i++) {
        double x = left + width * (last > first ? (log2(points[i].devices) - first) / (last - first) : 0);
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#1f6fb4\"/>\n", x, top + height * (1 - points[i].efficiency));
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"middle\">%d</text>\n", x, top + height + 20,
                points[i].devices);
    }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"middle\">devices</text>\n</svg>\n", left + width / 2,
            top + height + 44);
}

bool scaling_print_sweep(const struct scaling_input *input, int most, FILE *drawn, char *why, size_t why_len)
{
    struct point points[POINTS_MOST];
    struct scaling_input changed = *input;
    int n = 0;
    printf("%8s %11s %14s\n", "devices", "efficiency", "tokens/s");
    for (changed.dp = 1; n < POINTS_MOST && (long)changed.dp * input->tp * input->pp <= most; changed.dp *= 2) {
        struct scaling_result result;
        char bar[BAR + 1] = "";
        if (input->ep > 1 && changed.dp % input->ep)
            continue;
        if (!scaling_compute(&changed, &result, why, why_len))
            return false;
        points[n++] = (struct point){changed.dp * input->tp * input->pp, result.efficiency, result.tokens_per_s};
        memset(bar, '#', (size_t)lround(result.efficiency * BAR));
        printf("%8d %9.1f %% %14.4g  %s%s\n", points[n - 1].devices, 100 * result.efficiency, result.tokens_per_s, bar,
               result.fits ? "" : " does not fit");
    }
    if (n == 0) {
        snprintf(why, why_len, "no number of devices up to %d is a multiple of the layout's", most);
        return false;
    }
    if (drawn)
        draw(drawn, points, n);
    return true;
}
