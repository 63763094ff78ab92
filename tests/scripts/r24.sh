#!/bin/sh -e
# A TX1 under L4T R24 at its maximum: only late enough after boot, only the cores that are off, and then the two overrides.

cpu=/sys/devices/system/cpu
clock=/sys/kernel/debug/clock

show() {
    echo "governor: $(cat $cpu/cpu0/cpufreq/scaling_governor)"
    for n in 0 1 2 3; do
        [ "$(cat $cpu/cpu$n/online)" -eq 0 ] || echo "cpu$n: $(cat $cpu/cpu$n/cpufreq/scaling_cur_freq)"
    done
    for bus in gbus emc; do
        echo "$bus: $(cat $clock/$bus/min) $(cat $clock/$bus/max) $(cat $clock/$bus/rate)," \
            "override $(cat $clock/override.$bus/state)"
    done
}

[ "$(whoami)" = root ]
up=$(cut -d. -f1 /proc/uptime)
if [ "$up" -lt 90 ]; then
    echo "too early by $((90 - up)) s" >&2
    exit 255
fi
grep -q tegra210 /proc/device-tree/compatible
grep -q "R24 (release)" /etc/nv_tegra_release
[ "$(cat /sys/devices/soc0/family)" = Tegra21 ]
show

echo 0 > /sys/module/qos/parameters/enable
echo 0 > /sys/devices/platform/gpu.0/enable_3d_scaling
echo userspace > $cpu/cpu0/cpufreq/scaling_governor
cat $cpu/cpu0/cpufreq/scaling_max_freq > $cpu/cpu0/cpufreq/scaling_setspeed
cat $cpu/cpu0/cpufreq/scaling_max_freq > $cpu/cpu0/cpufreq/scaling_min_freq

echo 0 > $cpu/cpuquiet/tegra_cpuquiet/enable
echo runnable > $cpu/cpuquiet/current_governor
for file in $cpu/cpu[0-9]/online; do
    if [ "$(cat "$file")" -eq 0 ]; then
        echo 1 > "$file"
    fi
done

if [ -d /sys/kernel/cluster ]; then
    echo 1 > /sys/kernel/cluster/immediate
    echo 1 > /sys/kernel/cluster/force
    echo G > /sys/kernel/cluster/active
fi

for bus in gbus emc; do
    cat $clock/$bus/max > $clock/override.$bus/rate
    echo 1 > $clock/override.$bus/state
done

[ ! -w /sys/kernel/debug/tegra_fan/target_pwm ] || echo 255 > /sys/kernel/debug/tegra_fan/target_pwm
show
