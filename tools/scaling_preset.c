/* SPDX-License-Identifier: Apache-2.0
 * Devices and links: bandwidths per direction, each with its source. Data sheets that add up both directions are halved here. */
#include <stdio.h>
#include <strings.h>

#include "scaling.h"

/* clang-format off */
const struct scaling_preset scaling_presets[] = {
    {"rtx4060-laptop", PRESET_DEVICE, 15.75, 0, 8, 0, "NVIDIA GeForce RTX 4060 Laptop specification: 8 GB, PCIe 4.0 x8"},
    {"rtx4090", PRESET_DEVICE, 31.5, 0, 24, 165.2, "NVIDIA Ada GPU architecture white paper: 24 GB, PCIe 4.0 x16, FP16 with FP32 sums"},
    {"a100", PRESET_DEVICE, 300, 0, 80, 312, "NVIDIA A100 data sheet: 80 GB, NVLink 3 600 GB/s both ways, 312 TFLOPS"},
    {"h100", PRESET_DEVICE, 450, 0, 80, 989.4, "NVIDIA H100 SXM data sheet: 80 GB, NVLink 4 900 GB/s both ways, 989.4 TFLOPS dense"},
    {"h800", PRESET_DEVICE, 200, 0, 80, 989.4, "DeepSeek-AI 2025, Insights into DeepSeek-V3: NVLink 400 GB/s both ways; else as H100"},
    {"mi250", PRESET_DEVICE, 50, 0, 128, 362.1, "AMD Instinct MI250 data sheet: one Infinity Fabric link, 100 GB/s both ways"},
    {"mi300", PRESET_DEVICE, 448, 0, 192, 1307.4, "AMD Instinct MI300X data sheet: seven links of 128 GB/s both ways; 64 to one peer"},
    {"pcie3", PRESET_LINK, 15.75, 0, 0, 0, "PCI Express base specification 3.0: x16, 8 GT/s, 128b/130b"},
    {"pcie4", PRESET_LINK, 31.5, 0, 0, 0, "PCI Express base specification 4.0: x16, 16 GT/s, 128b/130b"},
    {"pcie5", PRESET_LINK, 63, 0, 0, 0, "PCI Express base specification 5.0: x16, 32 GT/s, 128b/130b"},
    {"nvlink3", PRESET_LINK, 300, 0, 0, 0, "NVIDIA A100 data sheet: 600 GB/s both ways"},
    {"nvlink4", PRESET_LINK, 450, 0, 0, 0, "NVIDIA H100 data sheet: 900 GB/s both ways"},
    {"1GbE", PRESET_LINK, 0.125, 0, 0, 0, "IEEE 802.3ab: 1 Gb/s each way, before headers"},
    {"10GbE", PRESET_LINK, 1.25, 0, 0, 0, "IEEE 802.3ae: 10 Gb/s each way, before headers"},
    {"100GbE", PRESET_LINK, 12.5, 0, 0, 0, "IEEE 802.3bj: 100 Gb/s each way, before headers"},
    {"200GbE", PRESET_LINK, 25, 0, 0, 0, "IEEE 802.3bs: 200 Gb/s each way, before headers"},
    {"400GbE", PRESET_LINK, 50, 0, 0, 0, "IEEE 802.3bs: 400 Gb/s each way, before headers"},
    {"tcp", PRESET_LATENCY, 0, 30, 0, 0, "10 to 50 us one way through the kernel, here 30: a rule of thumb, measure with motet perf"},
    {"rdma", PRESET_LATENCY, 0, 3, 0, 0, "1 to 5 us one way, here 3: a rule of thumb, measure on your network"},
};
/* clang-format on */
const int scaling_npresets = sizeof scaling_presets / sizeof scaling_presets[0];

const struct scaling_preset *scaling_preset_find(const char *name)
{
    for (int i = 0; i < scaling_npresets; i++)
        if (strcasecmp(scaling_presets[i].name, name) == 0)
            return &scaling_presets[i];
    return NULL;
}

static void print_number(double value, int width)
{
    if (value > 0)
        printf(" %*.6g", width, value);
    else
        printf(" %*s", width, "-");
}

void scaling_print_presets(void)
{
    printf("%-16s %9s %8s %10s %8s  %s\n", "preset", "GB/s", "us", "memory GB", "TFLOPS", "source");
    for (int i = 0; i < scaling_npresets; i++) {
        printf("%-16s", scaling_presets[i].name);
        print_number(scaling_presets[i].gbs, 9);
        print_number(scaling_presets[i].us, 8);
        print_number(scaling_presets[i].memory_gb, 10);
        print_number(scaling_presets[i].tflops, 8);
        printf("  %s\n", scaling_presets[i].source);
    }
    printf("GB/s are one way.\n");
}
