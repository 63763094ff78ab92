#!/bin/sh -e
# A board under L4T R38 at its maximum: GPU and memory are devfreq devices, and there is no rail gate.

grep -q tegra264 /proc/device-tree/compatible

for policy in /sys/devices/system/cpu/cpufreq/policy*; do
    [ -n "$(cat "$policy/affected_cpus")" ] || continue
    echo performance > "$policy/scaling_governor"
    cat "$policy/scaling_max_freq" > "$policy/scaling_min_freq"
done
for file in /sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/disable; do
    echo 1 > "$file"
done

echo on > /sys/bus/pci/devices/0000:01:00.0/power/control
for device in gpu-gpc-0 bwmgr; do
    cat /sys/class/devfreq/$device/max_freq > /sys/class/devfreq/$device/min_freq
done

emc=/sys/kernel/debug/bpmp/debug/clk/emc
echo 1 > $emc/mrq_rate_locked
cat $emc/max_rate > $emc/rate
echo "memory $(cat $emc/rate)"
