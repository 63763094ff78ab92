#!/bin/sh -e
# A board under L4T R36 at its maximum: policies are written once each, the GPU lies below bus@0, and the power mode's cap of
# the memory in another place.

for policy in /sys/devices/system/cpu/cpufreq/policy*; do
    [ -n "$(cat "$policy/affected_cpus")" ] || continue
    echo performance > "$policy/scaling_governor"
    cat "$policy/scaling_max_freq" > "$policy/scaling_min_freq"
done
find /sys/devices/system/cpu -path '*/cpuidle/state*' -name disable | while read -r file; do
    echo 1 > "$file"
done

gpu=/sys/devices/platform/bus@0/17000000.gpu
[ "$(readlink -f /sys/class/devfreq/17000000.gpu/device)" = $gpu ]
[ "$(readlink -f /sys/devices/platform/gpu.0)" = $gpu ]
echo 0 > $gpu/railgate_enable
cat $gpu/devfreq/17000000.gpu/max_freq > /sys/devices/platform/17000000.gpu/devfreq_dev/min_freq

emc=/sys/kernel/debug/bpmp/debug/clk/emc
rate=$(cat $emc/max_rate)
cap=$(cat /sys/kernel/nvpmodel_clk_cap/emc)
if [ "$cap" -gt 0 ] && [ "$cap" -lt "$rate" ]; then
    rate=$cap
fi
echo 1 > $emc/mrq_rate_locked
echo 1 > $emc/state
echo "$rate" > $emc/rate

for clock in /sys/kernel/debug/bpmp/debug/clk/nafll_gpc*/pto_counter; do
    echo "$(basename "$(dirname "$clock")") $(cat "$clock")"
done
