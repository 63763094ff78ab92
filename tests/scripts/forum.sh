#!/bin/sh -e
# The settings of NVIDIA's developer forum for measuring a TX1 under L4T R23.1, in the forum's order; the GPU at 690 MHz.

cpu=/sys/devices/system/cpu
clock=/sys/kernel/debug/clock

for n in 0 1 2 3; do
    echo userspace > $cpu/cpu$n/cpufreq/scaling_governor
done
for n in 0 1 2 3; do
    cat $cpu/cpu$n/cpufreq/scaling_max_freq > $cpu/cpu$n/cpufreq/scaling_min_freq
done

echo 0 > $cpu/cpuquiet/tegra_cpuquiet/enable
echo runnable > $cpu/cpuquiet/current_governor

echo 690000000 > $clock/override.gbus/rate
echo 1 > $clock/override.gbus/state

echo 1 > $clock/override.emc/state
cat $clock/emc/max > $clock/override.emc/rate

cat $clock/gbus/rate
